// Two bugs behind one call: the argument says which is met.
function buy(order) {
  return order.price.cents;
}

function login(user) {
  return user.session.token;
}

class Checkout {
  step2(bug) {
    dispatch(bug === "buy" ? buy : login);
  }
}

function dispatch(handler) {
  handler({});
}

try {
  new Checkout().step2(process.argv[2]);
} catch (error) {
  console.log(error.stack);
}
