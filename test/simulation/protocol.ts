// The protocol between processes and a server as a model of plain values: what
// docs/shared-stores.md describes, without the code of lib. `explore` visits every state that a
// few processes, requests and faults can reach.
import { createHash } from 'node:crypto'

/** A caller of the model. */
export type Caller = 'A' | 'B'
const callers: readonly Caller[] = ['A', 'B']

/** What the model is made of. Small, because every order of its steps is visited. */
export interface Setup {
  readonly limit: number
  readonly requests: readonly RequestSetup[]
  /** How often each fault can happen. */
  readonly faults: Readonly<Record<Fault, number>>
  /** What the protocol is known to need. Tests leave one out, and see that it is missed. */
  readonly without?: Safeguard
}

export interface RequestSetup {
  readonly process: number
  readonly caller: Caller
  /** What it holds while it runs, and each of what it can have used in the end. */
  readonly estimate: number
  readonly used: readonly number[]
}

export type Fault = 'windowEnd' | 'crash' | 'lost' | 'late'

/** The rules of the protocol on which its properties depend. */
export type Safeguard =
  | 'window ids'
  | 'ids used once'
  | 'numbers of calls'
  | 'numbers of places'
  | 'generations'
  | 'leases'
  | 'late settlements'

interface Window {
  /** The id that the server gives it, and the number that it truly has. */
  id: number
  serial: number
  count: number
  held: number
  isOver: boolean
}

interface Lease {
  number: number
  generation: number
  /** For each caller the places that the process holds, and in which generation it said so. */
  holdings: Record<Caller, { held: number; generation: number }>
}

interface Settlement {
  caller: Caller
  id: number
  lessCount: number
  lessHeld: number
}

/** A request in a call: a first demand with a place, or what it used beyond its grant. */
interface Demand {
  request: number
  most: number
  isMore: boolean
}

interface Call {
  process: number
  number: number
  lease: { generation: number; isComplete: boolean; holdings: Record<Caller, number> } | null
  settlements: Settlement[]
  /** The requests that wait for these settlements. */
  settled: number[]
  demands: Demand[]
}

interface Decided extends Demand {
  granted: number
  id: number
  window: number
}

interface Reply {
  process: number
  number: number
  settled: number[]
  demands: Demand[]
  decided: Decided[]
  isLate: boolean
}

interface Process {
  isAlive: boolean
  number: number
  generation: number
  /** Whether the server may know another number of places than the process holds. */
  isUncertain: boolean
  places: Record<Caller, number>
  /** The call that is not yet answered, by its number. */
  awaited: Call | null
  settlements: Settlement[]
  settled: number[]
  demands: Demand[]
}

interface Request {
  state: 'new' | 'asked' | 'running' | 'settling' | 'ended' | 'rejected' | 'failed'
  granted: number
  used: number
  parts: { id: number; window: number; amount: number }[]
  /** Whether its user was told that what it counts may be wrong, or its process has crashed. */
  isUncertain: boolean
}

/** Everything at one moment. */
export interface State {
  windows: Record<Caller, Window | null>
  lastWindow: number
  leases: (Lease | null)[]
  calls: Call[]
  replies: Reply[]
  processes: Process[]
  requests: Request[]
  left: Record<Fault, number>
}

/** What `explore` found. */
export interface Exploration {
  readonly states: number
  /** The states in which nothing more can happen. */
  readonly ends: number
  /** What was violated first, with the steps that lead there; null if all properties hold. */
  readonly violation: { readonly property: string; readonly steps: readonly string[] } | null
}

/** How a state was reached for the first time. */
interface Origin {
  /** The key of the state before. */
  readonly from: string
  readonly step: string
}

/** Visits all states breadth first, so that the steps to a violation are as few as possible. */
export function explore (setup: Setup): Exploration {
  const first = JSON.stringify(firstState(setup))
  const origins = new Map<string, Origin | null>([[keyOf(first), null]])
  let ends = 0
  let depth = [first]
  while (depth.length > 0) {
    const following: string[] = []
    for (const from of depth) {
      const steps = stepsFrom(from, setup)
      const isEnd = steps.length === 0
      if (isEnd) ends += 1
      const property = violated(JSON.parse(from), setup, isEnd)
      if (property !== null) {
        const violation = { property, steps: stepsTo(keyOf(from), origins) }
        return { states: origins.size, ends, violation }
      }
      for (const [step, state] of steps) {
        const key = keyOf(state)
        if (origins.has(key)) continue
        origins.set(key, { from: keyOf(from), step })
        following.push(state)
      }
    }
    depth = following
  }
  return { states: origins.size, ends, violation: null }
}

// A digest takes less memory than the state.
function keyOf (state: string): string {
  return createHash('sha1').update(state).digest('base64')
}

function stepsTo (state: string, origins: ReadonlyMap<string, Origin | null>): string[] {
  const steps: string[] = []
  let origin = origins.get(state)
  while (origin != null) {
    steps.unshift(origin.step)
    origin = origins.get(origin.from)
  }
  return steps
}

function firstState ({ requests, faults }: Setup): State {
  const processes = 1 + Math.max(...requests.map(({ process }) => process))
  return {
    windows: { A: null, B: null },
    lastWindow: 0,
    leases: Array.from({ length: processes }, () => null),
    calls: [],
    replies: [],
    processes: Array.from({ length: processes }, () => ({
      isAlive: true,
      number: 0,
      generation: 0,
      isUncertain: false,
      places: { A: 0, B: 0 },
      awaited: null,
      settlements: [],
      settled: [],
      demands: []
    })),
    requests: requests.map(() => ({
      state: 'new',
      granted: 0,
      used: 0,
      parts: [],
      isUncertain: false
    })),
    left: { ...faults }
  }
}

/** Returns each step that can be next, and the state after it. */
function stepsFrom (from: string, setup: Setup): [step: string, state: string][] {
  const steps: [string, string][] = []
  const { requests, processes, calls, replies, leases, left }: State = JSON.parse(from)
  const add = (step: string, change: (state: State) => void): void => {
    const state: State = JSON.parse(from)
    change(state)
    // A process sends at once what it has, or when the call before is answered.
    for (const [process] of state.processes.entries()) send(state, process, setup)
    steps.push([step, JSON.stringify(state)])
  }
  for (const [index, request] of requests.entries()) {
    const { process, caller, used } = at(setup.requests, index)
    if (!at(processes, process).isAlive) continue
    if (request.state === 'new') {
      add(`request ${index} of ${caller} asks`, (state) => {
        ask(state, index, setup)
      })
    }
    if (request.state !== 'running') continue
    for (const amount of used) {
      add(`request ${index} ends with ${amount} used`, (state) => {
        end(state, index, amount, setup)
      })
    }
  }
  for (const [index, process] of processes.entries()) {
    if (!process.isAlive) continue
    if (process.awaited !== null && left.late > 0) {
      add(`process ${index} waits no longer; what is on its way comes late`, (state) => {
        state.left.late -= 1
        giveUp(state, index)
      })
    }
    if (left.crash > 0) {
      add(`process ${index} crashes`, (state) => {
        state.left.crash -= 1
        crash(state, index, setup)
      })
    }
  }
  for (const [index, { process, number }] of calls.entries()) {
    add(`the server does call ${number} of process ${process}`, (state) => {
      const [call] = state.calls.splice(index, 1)
      if (call !== undefined) execute(state, call, setup)
    })
    if (left.lost > 0) {
      add(`call ${number} of process ${process} is lost`, (state) => {
        state.left.lost -= 1
        state.calls.splice(index, 1)
        giveUpIfAwaited(state, process, number)
      })
    }
  }
  for (const [index, { process, number }] of replies.entries()) {
    add(`reply ${number} reaches process ${process}`, (state) => {
      const [reply] = state.replies.splice(index, 1)
      if (reply !== undefined) receive(state, reply, setup)
    })
    if (left.lost > 0) {
      add(`reply ${number} to process ${process} is lost`, (state) => {
        state.left.lost -= 1
        state.replies.splice(index, 1)
        giveUpIfAwaited(state, process, number)
      })
    }
  }
  for (const [index, lease] of leases.entries()) {
    if (lease === null || at(processes, index).isAlive || setup.without === 'leases') continue
    add(`the lease of process ${index} ends`, (state) => {
      state.leases[index] = null
    })
  }
  if (left.windowEnd > 0) {
    add('the windows end', (state) => {
      state.left.windowEnd -= 1
      for (const window of Object.values(state.windows)) if (window !== null) window.isOver = true
    })
  }
  return steps
}

function ask (state: State, index: number, setup: Setup): void {
  const { process, estimate } = at(setup.requests, index)
  at(state.requests, index).state = 'asked'
  at(state.processes, process).demands.push({ request: index, most: estimate, isMore: false })
}

/** A request ends: its place is free, it holds nothing, and it counts what it used. */
function end (state: State, index: number, used: number, setup: Setup): void {
  const { process: owner, caller } = at(setup.requests, index)
  const request = at(state.requests, index)
  const process = at(state.processes, owner)
  const [part] = request.parts
  if (part === undefined) throw new Error('a request that runs was counted')
  request.state = 'settling'
  request.used = used
  process.places[caller] -= 1
  process.isUncertain = true
  process.settlements.push({
    caller,
    id: part.id,
    lessCount: Math.max(0, part.amount - used),
    lessHeld: request.granted
  })
  const more = used - part.amount
  part.amount = Math.min(part.amount, used)
  if (more > 0) process.demands.push({ request: index, most: more, isMore: true })
  else process.settled.push(index)
}

function send (state: State, index: number, setup: Setup): void {
  const process = at(state.processes, index)
  const isIdle = process.settlements.length + process.demands.length === 0 && !process.isUncertain
  if (process.awaited !== null || !process.isAlive || isIdle) return
  process.number += 1
  const needsLease = process.isUncertain || process.demands.some(({ isMore }) => !isMore)
  const call: Call = {
    process: index,
    number: process.number,
    lease: null,
    settlements: process.settlements,
    settled: process.settled,
    demands: process.demands
  }
  if (needsLease) {
    call.lease = {
      generation: process.generation,
      isComplete: setup.without !== 'generations',
      holdings: { ...process.places }
    }
  }
  process.settlements = []
  process.settled = []
  process.demands = []
  process.isUncertain = false
  process.awaited = call
  state.calls.push(call)
}

/** The process has had no reply in time, and states anew what it holds. */
function giveUp (state: State, index: number): void {
  const process = at(state.processes, index)
  const call = process.awaited
  if (call === null) return
  process.awaited = null
  process.generation += 1
  process.isUncertain = true
  for (const request of call.settled) {
    const settled = at(state.requests, request)
    settled.state = 'ended'
    settled.isUncertain = true
  }
  for (const { request, isMore } of call.demands) {
    const asked = at(state.requests, request)
    asked.state = isMore ? 'ended' : 'failed'
    asked.isUncertain = true
  }
}

function giveUpIfAwaited (state: State, index: number, number: number): void {
  if (at(state.processes, index).awaited?.number === number) giveUp(state, index)
}

function crash (state: State, index: number, setup: Setup): void {
  const process = at(state.processes, index)
  for (const request of [...process.settled, ...(process.awaited?.settled ?? [])]) {
    at(state.requests, request).isUncertain = true
  }
  process.isAlive = false
  process.awaited = null
  process.settlements = []
  process.settled = []
  process.demands = []
  process.isUncertain = false
  process.places = { A: 0, B: 0 }
  state.replies = state.replies.filter((reply) => reply.process !== index)
  for (const [number, request] of state.requests.entries()) {
    if (at(setup.requests, number).process !== index) continue
    // It can have used all that it was granted.
    if (request.state === 'running') request.used = request.granted
    if (['asked', 'running', 'settling'].includes(request.state)) {
      request.state = 'failed'
      request.isUncertain = true
    }
    if (request.state === 'new') request.state = 'ended'
  }
}

/** What the server does with a call, in one step. */
function execute (state: State, call: Call, setup: Setup): void {
  const { process, number, lease, settlements, settled, demands } = call
  const reply: Reply = { process, number, settled, demands, decided: [], isLate: false }
  const isHeard = at(state.processes, process).isAlive
  const known = at(state.leases, process)
  if (lease !== null) {
    if (known !== null && number <= known.number && setup.without !== 'numbers of calls') {
      if (isHeard) state.replies.push({ ...reply, isLate: true })
      return
    }
    state.leases[process] = renewed(known, number, lease, setup)
  }
  for (const { caller, id, lessCount, lessHeld } of settlements) {
    const window = state.windows[caller]
    if (window === null || (window.id !== id && setup.without !== 'window ids')) continue
    window.count = Math.max(0, window.count - lessCount)
    window.held = Math.max(0, window.held - lessHeld)
  }
  for (const demand of demands) reply.decided.push(decide(state, demand, setup))
  if (isHeard) state.replies.push(reply)
}

function renewed (
  known: Lease | null,
  number: number,
  lease: NonNullable<Call['lease']>,
  { without }: Setup
): Lease {
  const { generation } = lease
  const none = { held: 0, generation }
  const holdings = known?.holdings ?? { A: { ...none }, B: { ...none } }
  for (const caller of callers) {
    const before = holdings[caller].held
    const held = lease.holdings[caller]
    const isAdded = without === 'numbers of places'
    // Without a complete statement, only callers with places are stated.
    if (held === 0 && !lease.isComplete && generation > 0) continue
    holdings[caller] = { held: isAdded ? Math.max(before, held) : held, generation }
  }
  return { number, generation, holdings }
}

function decide (state: State, demand: Demand, setup: Setup): Decided {
  const { request, most, isMore } = demand
  const { process, caller } = at(setup.requests, request)
  const window = openWindow(state, caller, setup)
  if (isMore) {
    window.count += most
    return { ...demand, granted: most, id: window.id, window: window.serial }
  }
  const lease = at(state.leases, process)
  if (lease === null) throw new Error('a place needs a lease')
  const room = setup.limit - window.count
  const hasRoom = room >= 1 && placesOf(state, caller) + 1 <= setup.limit
  if (!hasRoom) return { ...demand, granted: 0, id: window.id, window: window.serial }
  const granted = Math.min(most, room)
  window.count += granted
  window.held += granted
  lease.holdings[caller].held += 1
  return { ...demand, granted, id: window.id, window: window.serial }
}

function openWindow (state: State, caller: Caller, { without }: Setup): Window {
  const found = state.windows[caller]
  if (found !== null && !found.isOver) return found
  state.lastWindow += 1
  const id = without === 'ids used once' ? 1 : state.lastWindow
  const window = { id, serial: state.lastWindow, count: 0, held: 0, isOver: false }
  state.windows[caller] = window
  return window
}

function placesOf ({ leases }: State, caller: Caller): number {
  let total = 0
  for (const lease of leases) total += lease?.holdings[caller].held ?? 0
  return total
}

function receive (state: State, reply: Reply, setup: Setup): void {
  const process = at(state.processes, reply.process)
  if (!process.isAlive) return
  if (process.awaited?.number !== reply.number) {
    receiveLate(state, process, reply, setup)
    return
  }
  if (reply.isLate) {
    giveUp(state, reply.process)
    return
  }
  process.awaited = null
  for (const request of reply.settled) at(state.requests, request).state = 'ended'
  for (const { request, granted, id, window, isMore } of reply.decided) {
    const asked = at(state.requests, request)
    if (granted > 0) asked.parts.push({ id, window, amount: granted })
    if (isMore) {
      asked.state = 'ended'
      continue
    }
    asked.state = granted > 0 ? 'running' : 'rejected'
    asked.granted = granted
    if (granted > 0) process.places[at(setup.requests, request).caller] += 1
  }
}

/** What a request has counted whose reply is late is given back: it got its response without. */
function receiveLate (state: State, process: Process, { decided }: Reply, setup: Setup): void {
  for (const { request, granted, id, isMore } of decided) {
    if (granted === 0 || isMore) continue
    const { caller } = at(setup.requests, request)
    at(state.requests, request).isUncertain = false
    if (setup.without === 'late settlements') continue
    process.settled.push(request)
    process.settlements.push({ caller, id, lessCount: granted, lessHeld: granted })
  }
}

/** Returns the property that a state violates, or null. */
function violated (state: State, setup: Setup, isEnd: boolean): string | null {
  for (const caller of callers) {
    if (mostUsed(state, caller, setup) > setup.limit) {
      return 'no more is granted in a window than its limit'
    }
    if (runningPlaces(state, caller, setup) > setup.limit) {
      return 'no more requests run than the limit of places'
    }
  }
  if (!isEnd) return null
  for (const caller of callers) {
    const problem = violatedInTheEnd(state, caller, setup)
    if (problem !== null) return problem
  }
  return null
}

/** What the requests of a caller have of a window's limit, at least: overruns are no grants. */
function mostUsed (state: State, caller: Caller, setup: Setup): number {
  const byWindow = new Map<number, number>()
  for (const [index, { state: is, granted, used, parts }] of state.requests.entries()) {
    const [first] = parts
    if (at(setup.requests, index).caller !== caller || first === undefined) continue
    const amount = is === 'running' ? granted : Math.min(granted, used)
    byWindow.set(first.window, (byWindow.get(first.window) ?? 0) + amount)
  }
  return Math.max(0, ...byWindow.values())
}

function runningPlaces (state: State, caller: Caller, setup: Setup): number {
  return state.requests.filter(
    ({ state: is }, index) => is === 'running' && at(setup.requests, index).caller === caller
  ).length
}

function violatedInTheEnd (state: State, caller: Caller, setup: Setup): string | null {
  if (placesOf(state, caller) > 0) return 'no place is lost for longer than a lease'
  for (const [index, { state: is }] of state.requests.entries()) {
    const isOf = at(setup.requests, index).caller === caller
    if (isOf && !['ended', 'rejected', 'failed'].includes(is)) return 'each promise is answered'
  }
  const window = state.windows[caller]
  if (window === null || window.isOver) return null
  let certain = 0
  let uncertain = 0
  let held = 0
  for (const [index, request] of state.requests.entries()) {
    const { caller: of, estimate, used } = at(setup.requests, index)
    if (of !== caller) continue
    const counted = amountIn(request, window.serial)
    if (request.isUncertain) {
      uncertain += Math.max(estimate, ...used)
      held += estimate
    } else {
      certain += counted
    }
  }
  if (window.held > held) return 'held returns to 0'
  if (window.count < certain || window.count > certain + uncertain) {
    return 'what is counted in the end is what was used, or a message said that it may be wrong'
  }
  return null
}

function amountIn ({ parts }: Request, window: number): number {
  let amount = 0
  for (const part of parts) if (part.window === window) amount += part.amount
  return amount
}

/** An entry that is there. */
function at<Entry> (list: readonly Entry[], index: number): Entry {
  const entry = list[index]
  if (entry === undefined) throw new Error(`there is no entry ${index}`)
  return entry
}
