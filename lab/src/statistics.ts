/** Means and their 95 % intervals, as docs/statistics.md has them: Student's t over runs. */

export function mean(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Half the width of the interval of the mean; infinite of a single run. */
export function interval(values: number[]): number {
  const count = values.length;
  if (count < 2) return Infinity;
  const centre = mean(values);
  const variance = values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (count - 1);
  return quantile(count - 1) * Math.sqrt(variance / count);
}

/** The mean of differences between runs of the same random numbers. */
export function paired(differences: number[]): { centre: number; half: number } {
  return { centre: mean(differences), half: interval(differences) };
}

/** Of 97.5 % of Student's t: exact to 1 % from 3 degrees of freedom on (Hill 1970, as far as its fourth term). */
export function quantile(freedom: number): number {
  const small = [12.706, 4.303, 3.182];
  const exact = small[freedom - 1];
  if (exact !== undefined) return exact;
  const z = 1.959964;
  const terms = [
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
  ];
  return terms.reduce((sum, term, index) => sum + term / freedom ** (index + 1), z);
}
