export function deepest(numbers: number[]): number {
  const inner = function (left: number[]): number {
    if (left.length === 0) {
      throw new Error("nothing is left");
    }
    return left[0] + inner(left.slice(1));
  };
  return inner(numbers);
}
