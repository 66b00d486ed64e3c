// Each change of an insured store is logged once.
import t from 'tap'
import { answered, insure } from '../support/told-store.js'
import { alice, analyze, captureLog, createService } from '../support/service.js'

t.test('many requests that fail at once cause one log line', async (t) => {
  const { clock, primary, store, countOf } = insure()
  const log = captureLog()
  const app = await createService({ store, perMinute: 100 }, { logger: log.logger })
  primary.manner = 'hangs'
  const responses = await answered(clock, Promise.all(Array.from({ length: 50 }, () => analyze(app, alice))))
  t.ok(responses.every(({ statusCode }) => statusCode === 200))
  t.match(log.warnings().filter((line) => line.includes('primary')), [/primary store fails; its fallback counts/])
  t.match(log.lines.filter(({ msg }) => String(msg).includes('primary')), [{ err: { message: 'no response within 30 ms' } }])
  primary.manner = 'promises'
  clock.advance(100)
  for (let request = 0; request < 3; request++) await analyze(app, alice)
  const logged = () => log.warnings().filter((line) => line.includes('primary'))
  t.match(logged(), [/fails/, /works again/])
  t.equal(logged().length, 2)
  t.same(log.errors(), [])

  const other = insure()
  other.primary.manner = 'throws'
  await other.countOf()
  t.equal(logged().length, 2, 'a change of the store of another server is not logged')
  await app.close()
  primary.manner = 'throws'
  await countOf()
  t.equal(logged().length, 2, 'a closed server logs no change')
})
