mod moving;
mod place;
