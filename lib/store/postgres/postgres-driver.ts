import { nameOf, type Caller, type Decided, type Driver } from '../shared/driver.js'
import type { Demand } from '../store.js'
import type { CallFunction } from './schema.js'

// How long a place is held after it was last written, in milliseconds.
const lease = 30_000

// How long what the server has told of its clock is used, in milliseconds. Longer, and the clock
// could have been set back to the same time.
const knownFor = 100

/** The counters and places in the table of a PostgreSQL server. */
export function postgresDriver (call: CallFunction, cap: number): Driver {
  // For each quota, between which times of the server's clock `acquire_one` can decide, as the
  // server has told a moment ago.
  const knownClocks = new Map<
    string,
    { readonly clock: readonly number[]; readonly until: number }
  >()

  return {
    async acquire (requests, { time, holder, sequence }) {
      const demands = requests.flatMap(({ demands, held, nonce }) =>
        demands.map((demand, index) => {
          const row =
            demand.window === null
              ? { holder, length: lease }
              : { holder: '', length: demand.window }
          return { ...demand, ...row, held: Number(held[index]), nonce: nonce + index }
        })
      )
      const isNew = requests.every(({ asked }) => asked === 0)
      const windows = isNew ? [] : demands.filter(({ holder }) => holder === '')
      const slots = [
        ...distinct(windows.map(stateOf)),
        ...distinct([...demands, ...windows.map(overflowOf)])
      ]
      const numbers = new Map(slots.map((slot, index) => [nameOf(slot), index + 1]))
      const numbersOf = (rows: readonly Caller[]): number[] =>
        rows.map((row) => numbers.get(nameOf(row)) ?? 0)
      const [only] = demands
      const known = knownClocks.get(String(only?.counters))
      const clock =
        known !== undefined && performance.now() < known.until ? known.clock : [null, null, null]
      const reply =
        isNew && demands.length === 1 && only?.holder === ''
          ? await call(
            'acquire_one',
            time,
            ...clock,
            cap,
            ...columns(
              demands,
              'counters',
              'callerKey',
              'length',
              'nonce',
              'limit',
              'cost',
              'end'
            ).flat()
          )
          : await call(
            'acquire',
            time,
            cap,
            sequence,
            ...columns(slots, 'counters', 'callerKey', 'holder', 'length', 'held'),
            requests.map(({ demands }) => demands.length),
            numbersOf(demands),
            numbersOf(demands.map(stateOf)),
            numbersOf(demands.map(overflowOf)),
            ...columns(demands, 'nonce', 'limit', 'cost', 'end')
          )
      const [told, ...decided]: [number[] | null, ...(number[][] | null)[]] = JSON.parse(reply)
      const until = performance.now() + knownFor
      if (told !== null) {
        for (const { counters } of demands) knownClocks.set(counters, { clock: told, until })
      }
      return requests.map(({ demands }, index) =>
        decided[index]?.map((each, place) => readDecided(each, Object(demands[place])))
      )
    },
    async release (releases, holdings, { time, holder, sequence }) {
      const windows = releases
        .map((release) => (release.overflow ? overflowOf(release) : release))
        .sort(inOrder)
      const places = [...holdings].sort(inOrder)
      await call(
        'release',
        time,
        holder,
        lease,
        sequence,
        ...columns(places, 'counters', 'callerKey', 'held'),
        ...columns(windows, 'counters', 'callerKey', 'nonce', 'amount')
      )
    },
    async peek (demand, time) {
      const { counters, callerKey, window, end } = demand
      const reply = await call('peek', time, cap, counters, callerKey, end)
      if (reply === '') {
        return window === null ? { count: 0, windowRemaining: null, overflow: false } : null
      }
      const { admitted, nonce, ...count } = readDecided(JSON.parse(reply), demand)
      return count
    },
    forget: (callerKey, counters) => call('forget', counters, callerKey),
    list: async (counters, cursor, time, date) =>
      JSON.parse(await call('list', time, date, counters, cursor ?? '')),
    inspect: async (counters) => JSON.parse(await call('inspect', counters)),
    clear: () => call('clear')
  }
}

const stateOf = <Slot extends Caller>(slot: Slot): Slot => ({ ...slot, callerKey: 'state' })
const overflowOf = <Slot extends Caller>(slot: Slot): Slot => ({ ...slot, callerKey: 'overflow' })

function distinct<Slot extends Caller> (slots: readonly Slot[]): Slot[] {
  return [...new Map(slots.map((slot) => [nameOf(slot), slot])).values()].sort(inOrder)
}

/** The order in which each process locks rows, so that no two of them wait for each other. */
function inOrder (one: Caller, other: Caller): number {
  return nameOf(one) < nameOf(other) ? -1 : 1
}

function columns<Name extends string> (
  rows: readonly Readonly<Record<Name, string | number | null>>[],
  ...names: readonly Name[]
) {
  return names.map((name) => rows.map((row) => row[name]))
}

function readDecided (
  [count = 0, rest = 0, flags = 0, nonce = 0]: readonly number[],
  { window, end }: Demand
): Decided {
  const windowEnd =
    end === null
      ? { windowRemaining: window === null ? null : rest }
      : { windowRemaining: null, end: rest }
  return { admitted: flags % 2 === 1, count, ...windowEnd, overflow: flags >= 2, nonce }
}
