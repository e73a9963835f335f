// The button of iOS.
export const press = (target: { id: number }): number => {
  return target.id;
};
