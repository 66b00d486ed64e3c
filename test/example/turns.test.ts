// How the example service limits work: the number of tasks that run and that wait, and a fair order among callers.
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Turns, QueueFull } from '../../examples/service/turns.js'

/** Tasks that end when the test completes them, and the tasks that have run so far. */
function workshop (bounds: { atOnce: number, waiting: number }) {
  const turns = new Turns(bounds)
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const task = (name: string) => new Promise<string>((resolve) => {
    begun.push(name)
    ends.set(name, () => { resolve(name) })
  })
  const run = (whose: string, name: string, signal = new AbortController().signal) => turns.run(whose, signal, () => task(name))
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.()
    await setImmediate()
  }
  return { begun, run, end }
}

t.test('a limited number of tasks runs at once, and the rest waits in order', async (t) => {
  const { run, end, begun } = workshop({ atOnce: 2, waiting: 10 })
  const all = ['1', '2', '3', '4'].map((name) => run('a', name))
  t.same(begun, ['1', '2'])
  await end('2')
  t.same(begun, ['1', '2', '3'])
  for (const name of ['1', '3', '4']) await end(name)
  t.same(await Promise.all(all), ['1', '2', '3', '4'])
})

t.test('many tasks of one owner do not delay another owner', async (t) => {
  const { run, end, begun } = workshop({ atOnce: 1, waiting: 10 })
  const all = [...['a1', 'a2', 'a3', 'a4'].map((name) => run('a', name)), run('b', 'b1'), run('c', 'c1'), run('b', 'b2')]
  for (const name of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4']) {
    t.equal(begun.at(-1), name)
    await end(name)
  }
  t.equal((await Promise.all(all)).length, 7)
})

t.test('a full queue accepts a task of another owner instead of the last task of the owner with the most tasks', async (t) => {
  const { run, end, begun } = workshop({ atOnce: 1, waiting: 3 })
  const flood = ['a1', 'a2', 'a3', 'a4', 'a5'].map((name) => run('a', name).catch((error: unknown) => error))
  t.ok(await flood[4] instanceof QueueFull, 'the fifth task is not accepted, because three tasks wait')
  const other = run('b', 'b1')
  t.ok(await flood[3] instanceof QueueFull, 'the last waiting task is replaced by that of another owner')
  const second = run('b', 'b2').catch((error: unknown) => error)
  t.ok(await Promise.race([second, setImmediate()]) instanceof QueueFull, 'but not if that owner would then have as many')
  for (const name of ['a1', 'a2']) await end(name)
  t.equal(begun.at(-1), 'b1')
  for (const name of ['b1', 'a3']) await end(name)
  t.equal(await other, 'b1')
})

t.test('a task that is aborted leaves the queue, and another task can take its place', async (t) => {
  const { run, end, begun } = workshop({ atOnce: 1, waiting: 1 })
  const first = run('a', 'a1')
  const leaves = new AbortController()
  const gone = run('a', 'a2', leaves.signal)
  leaves.abort(new Error('gone'))
  await t.rejects(gone, { message: 'gone' })
  await t.rejects(run('a', 'a3', leaves.signal), { message: 'gone' })
  const next = run('a', 'a4')
  await end('a1')
  await end('a4')
  t.same(await Promise.all([first, next]), ['a1', 'a4'])
  t.same(begun, ['a1', 'a4'])
})

t.test('the next task runs after a task has failed', async (t) => {
  const turns = new Turns({ atOnce: 1, waiting: 1 })
  const { signal } = new AbortController()
  const failing = turns.run('a', signal, async () => { throw new Error('broken') })
  const next = turns.run('a', signal, async () => 'next')
  await t.rejects(failing, { message: 'broken' })
  t.equal(await next, 'next')
})
