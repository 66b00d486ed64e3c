import { nodeTimers, withTimeout } from '../../time-limit.js'

/** How often a server is left, and how long its reply to `QUIT` is waited for, in milliseconds. */
const leavingInterval = 1_000

/** How long after that reply the client may not know yet that the connection is closed. */
const closingTime = 50

/**
 * Leaves a server that has become a replica, at most once a second. The server keeps its
 * connections, and no option makes the client leave it. After `QUIT`, it closes the connection, and
 * the client connects again.
 */
class ReplicaLeaver {
  readonly #quit: () => Promise<unknown>
  #leftAt = -Infinity
  #isLeaving = false

  /** @param quit Sends `QUIT`. */
  constructor (quit: () => Promise<unknown>) {
    this.#quit = quit
  }

  /** Whether the server may not execute what is sent now, because it comes after `QUIT`. */
  get isLeaving (): boolean {
    return this.#isLeaving
  }

  /** Awaits a reply, and leaves the server if it says that it is a replica. */
  async watch (reply: Promise<unknown>): Promise<unknown> {
    try {
      return await reply
    } catch (error) {
      if (error instanceof Error && /READONLY|ReadOnly/.test(error.message)) this.#leaveInTurn()
      throw error
    }
  }

  #leaveInTurn (): void {
    if (performance.now() - this.#leftAt < leavingInterval) return
    this.#leftAt = performance.now()
    this.#isLeaving = true
    // By the next turn, the connection with the error is idle again.
    setImmediate(() => {
      this.#leave()
    })
  }

  async #leave (): Promise<void> {
    try {
      await withTimeout(leavingInterval, this.#quit())
    } catch {}
    nodeTimers.setTimeout(() => {
      this.#isLeaving = false
    }, closingTime)
  }
}

const leavers = new WeakMap<object, ReplicaLeaver>()

/**
 * Returns the leaver of a client, which several stores can use: none may send anything after what
 * another one has sent to leave.
 *
 * @param quit As that of `ReplicaLeaver`.
 */
export function leaverOf (client: object, quit: () => Promise<unknown>): ReplicaLeaver {
  const leaver = leavers.get(client) ?? new ReplicaLeaver(quit)
  leavers.set(client, leaver)
  return leaver
}
