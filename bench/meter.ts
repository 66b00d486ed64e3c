// How many instructions a model's stream costs, a byte: through the meter of a permit, and through
// a stream that only parses server-sent events. In parts of one event and of 16 KiB.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { instructionsOf, startCounting, valgrind } from './callgrind.js'
import { median, type Row } from './table.js'

export type Way = 'meter' | 'eventsource-parser alone'

const passes = 9

export async function measureMeter (): Promise<Row[]> {
  return [
    await measure('in parts of one event', 'event'),
    await measure('in parts of 16 KiB', String(16 * 1024))
  ]
}

async function measure (title: string, length: string): Promise<Row> {
  const costs: Record<Way, number> = {
    meter: await instructionsPerByte('meter', length),
    'eventsource-parser alone': await instructionsPerByte('eventsource-parser alone', length)
  }
  return { title: `A stream ${title}`, unit: 'instructions a byte', costs }
}

async function instructionsPerByte (way: Way, length: string): Promise<number> {
  const [program, ...options] = valgrind
  // With a single thread, the compiler and the garbage collector run in the same order each time.
  const node = [process.execPath, '--single-threaded', '--no-memory-reducer']
  const stream = [...node, fileURLToPath(new URL('meter-stream.js', import.meta.url)), way, length]
  const child = spawn(program, [...options, ...stream], {
    stdio: ['ignore', 'inherit', 'ignore', 'ipc']
  })
  try {
    const [bytes] = await once(child, 'message')
    startCounting(child.pid)
    const figures: number[] = []
    for (let passed = 0; passed < passes; passed += 1) {
      const before = instructionsOf(child.pid)
      child.send('pass')
      await once(child, 'message')
      figures.push((instructionsOf(child.pid) - before) / Number(bytes))
    }
    return median(figures)
  } finally {
    child.kill('SIGKILL')
  }
}
