/** The number of empty plugins that the application of each server registers by default; docs/benchmarks.md explains it. */
export const pluginCount = 6
