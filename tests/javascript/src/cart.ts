import { round } from "./money";

export interface Item {
  title: string;
  cents: number;
}

// Names and lines that no minifier keeps, and characters of one, two and four bytes: é “ 😀.
export class Cart {
  constructor(private items: Item[]) {}

  total(discount: number): number {
    const sum = this.items.reduce((all, item) => all + priceOf(item), 0);
    return round(sum * (1 - discount));
  }
}

export function priceOf(item: Item): number {
  if (item.cents < 0) {
    throw new RangeError(`“${item.title}” costs less than nothing 😀`);
  }
  return item.cents;
}
