export const round = (cents: number): number => Math.round(cents);

export function shown(cents: number): string {
  return `${(cents / 100).toFixed(2)} €`;
}
