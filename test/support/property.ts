import fc, { type IAsyncProperty, type Parameters } from 'fast-check'

const { CI, FC_SEED: seed, FC_PATH: path } = process.env

/**
 * Checks a property on random values. A failure prints its seed and path, and the environment's
 * `FC_SEED` and `FC_PATH` replay only that failure. In CI it is not shrunk, which can take longer
 * than a test may.
 */
export async function assertProperty<Values> (
  property: IAsyncProperty<Values>,
  parameters: Parameters<Values> = {}
): Promise<void> {
  await fc.assert(property, {
    includeErrorInReport: true,
    endOnFailure: CI !== undefined,
    ...parameters,
    ...(seed !== undefined && { seed: Number(seed) }),
    ...(path !== undefined && { path })
  })
}
