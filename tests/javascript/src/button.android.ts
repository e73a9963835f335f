// The button of Android, which has more lines above its own.
export interface Target {
  id: number;
}

export const press = (target: Target): number => {
  return target.id;
};
