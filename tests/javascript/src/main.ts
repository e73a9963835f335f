import { Cart } from "./cart";
import { shown } from "./money";

async function checkout(cart: Cart): Promise<string> {
  const total = cart.total(0.1);
  return shown(total);
}

function onPress() {
  const cart = new Cart([{ title: "é", cents: 250 }, { title: "b", cents: -1 }]);
  return checkout(cart);
}

onPress().catch((error) => console.log(error.stack));
