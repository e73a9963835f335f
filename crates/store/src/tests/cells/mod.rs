mod leaving_out;
mod moving;
mod place;
