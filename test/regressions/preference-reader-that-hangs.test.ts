// A preference reader that never answered made its request hang forever, and one that alternated between valid and invalid values
// flooded the log.
import { mock } from 'node:test'
import t from 'tap'
import { alice, analyze, captureLog, createService } from '../support/service.js'

t.test('a reader that alternates between valid and invalid values causes one warning', async (t) => {
  const log = captureLog()
  let reads = 0
  const app = await createService({ preferences: { get: () => reads++ % 2 === 0 ? 'many' : 5 } }, { logger: log.logger })
  for (let request = 0; request < 6; request++) await analyze(app, alice)
  t.equal(reads, 6)
  t.equal(log.warnings().filter((message) => message.includes('preference')).length, 1)
})

t.test('a reader that never answers delays a request by one second at most, and the configured limit applies', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => { mock.timers.reset() })
  let noteAsked = (): void => {}
  const app = await createService({ preferences: { get: () => { noteAsked(); return new Promise(() => {}) } }, perMinute: 1 })
  for (const status of [200, 429]) {
    const asked = new Promise<void>((resolve) => { noteAsked = resolve })
    const answer = analyze(app, alice)
    await asked
    mock.timers.tick(1_000)
    t.equal((await answer).statusCode, status)
  }
})
