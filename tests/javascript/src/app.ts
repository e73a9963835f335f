import { press } from "./button";
import { Cart } from "./cart";
import { deepest } from "./nested";

// One error of each kind of function. What a bundle is run for is the list of their stacks.
const kinds: (() => unknown)[] = [
  () => new Cart([{ title: "é", cents: 250 }, { title: "b", cents: -1 }]).total(0.1),
  () => deepest([3, 2, 1]),
  async () => {
    await null;
    return press(undefined as unknown as { id: number });
  },
  () => require("./late").load("cart"),
];

async function stacks(): Promise<string[]> {
  const all: string[] = [];
  for (const kind of kinds) {
    try {
      await kind();
    } catch (error) {
      all.push((error as Error).stack ?? "");
    }
  }
  return all;
}

declare const print: undefined | ((text: string) => void);
const show = typeof print === "function" ? print : console.log;
stacks().then((all) => show(JSON.stringify(all)));
