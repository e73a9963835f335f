export class Loader {
  static names = ["home"];

  get(name: string): string {
    if (!Loader.names.includes(name)) {
      throw new TypeError(`there is no ${name}`);
    }
    return name;
  }
}

export function load(name: string): string {
  return new Loader().get(name);
}
