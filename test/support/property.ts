import fc, { type IAsyncProperty, type Parameters } from 'fast-check'

const { CI, FC_PATH: path } = process.env

/**
 * The seed of all random values of a test file. It is fixed, so that `npm test` does the same each
 * time; `FC_SEED=new` draws another one, which the nightly run does, and `FC_SEED` and a number
 * sets it.
 */
const seed = chosenSeed(process.env.FC_SEED)

/**
 * Checks a property on random values. A failure prints its seed and path, and the environment's
 * `FC_SEED` and `FC_PATH` replay only that failure. In CI it is not shrunk, which can take longer
 * than a test may.
 *
 * The message is shortened, because tap takes minutes to print the values of a long walk.
 */
export async function assertProperty<Values> (
  property: IAsyncProperty<Values>,
  parameters: Parameters<Values> = {}
): Promise<void> {
  const result = await fc.check(property, {
    includeErrorInReport: true,
    endOnFailure: CI !== undefined,
    ...parameters,
    seed,
    ...(path !== undefined && { path })
  })
  const report = await fc.asyncDefaultReportMessage(result)
  if (report !== undefined) throw new Error(shortened(report))
}

/** Returns a report with its seed and path, which stand first, and its error, which stands last. */
function shortened (report: string): string {
  if (report.length <= 3000) return report
  return `${report.slice(0, 1000)}\n…\n${report.slice(-2000)}`
}

function chosenSeed (chosen: string | undefined): number {
  if (chosen === undefined) return 20_251_125
  const seed = chosen === 'new' ? Math.floor(Math.random() * 2 ** 31) : Number(chosen)
  if (!Number.isSafeInteger(seed)) {
    throw new Error(`FC_SEED must be an integer or "new"; it is "${chosen}"`)
  }
  console.error(`FC_SEED=${seed}`)
  return seed
}
