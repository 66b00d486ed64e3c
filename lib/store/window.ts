/** Length of every counter's fixed window, in milliseconds (specification, section 8). */
export const windowLength = 60_000
