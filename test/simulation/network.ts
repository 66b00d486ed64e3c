// The network of a simulation: calls and replies wait until a test delivers, loses or repeats them.
import type { Call, Driver, Reply } from '../../lib/store/shared/driver.js'
import type { CallerPage, QuotaCount, QuotaStoreState } from '../../lib/store/store.js'
import type { Server } from './server.js'

/** What can be wrong with a network, or with what a store sends over it. */
export interface NetworkFaults {
  /** Changes a call on its way. */
  readonly call?: (call: Call) => Call
  /** Changes a reply on its way. */
  readonly reply?: (reply: Reply) => Reply
}

/** A call or a reply that is on its way. */
export interface Message {
  readonly kind: 'call' | 'reply'
  /** What happens when it arrives. */
  readonly arrive: () => void
  /** The client of its process loses the connection. */
  readonly reset: () => void
  /** Whether a client may send it again after it has lost the connection. */
  readonly canBeRepeated: boolean
}

/** All that is on its way. */
export class Network {
  readonly messages: Message[] = []
  /** How many messages were sent so far. */
  sent = 0

  send (message: Message): void {
    this.messages.push(message)
    this.sent += 1
  }

  /** Takes a message, of those that are on their way; undefined if there is none. */
  take (index: number): Message | undefined {
    if (this.messages.length === 0) return undefined
    return this.messages.splice(index % this.messages.length, 1)[0]
  }

  /** Returns a message without taking it. */
  look (index: number): Message | undefined {
    return this.messages[index % Math.max(1, this.messages.length)]
  }
}

/** A process as the network knows it. */
export interface Sender {
  readonly isAlive: boolean
}

/** A driver for stores that only decide. */
abstract class DecidingDriver implements Driver {
  readonly mostDemands = 384
  abstract decide (call: Call): Promise<Reply>

  peek (): Promise<QuotaCount | null> {
    throw new Error('the simulation does not peek')
  }

  forget (): Promise<unknown> {
    throw new Error('the simulation does not forget')
  }

  list (): Promise<CallerPage> {
    throw new Error('the simulation does not list')
  }

  inspect (): Promise<QuotaStoreState> {
    throw new Error('the simulation does not inspect')
  }

  clear (): Promise<unknown> {
    throw new Error('the simulation does not clear')
  }
}

/** A client beside its server, whose replies arrive at once. */
export class DirectDriver extends DecidingDriver {
  readonly #server: Server

  constructor (server: Server) {
    super()
    this.#server = server
  }

  async decide (call: Call): Promise<Reply> {
    return this.#server.decide(call)
  }
}

/** The client of a process, which sends calls to a server. */
export class SimulatedDriver extends DecidingDriver {
  readonly #network: Network
  readonly #server: Server
  readonly #sender: Sender
  readonly #renewed: () => void
  readonly #faults: NetworkFaults

  /** @param renewed Is called when the server has done a call with the lease of the process. */
  constructor (
    network: Network,
    server: Server,
    sender: Sender,
    renewed: () => void,
    faults: NetworkFaults = {}
  ) {
    super()
    this.#network = network
    this.#server = server
    this.#sender = sender
    this.#renewed = renewed
    this.#faults = faults
  }

  decide (original: Call): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (!this.#sender.isAlive) return
      const call = this.#faults.call?.(original) ?? original
      const reset = (): void => {
        reject(new Error('the connection was lost'))
      }
      // Without a lease a call has no number, and the server would do it twice.
      const canBeRepeated = call.lease !== null
      let isDone = false
      const arrive = (): void => {
        // If the lease has ended since, the server would do the call twice: a documented loss.
        if (isDone && this.#server.hasForgotten(call)) return
        isDone = true
        const receive = this.#answer(call, resolve, reject)
        this.#network.send({
          kind: 'reply',
          arrive: receive,
          reset,
          canBeRepeated: false
        })
      }
      this.#network.send({ kind: 'call', arrive, reset, canBeRepeated })
    })
  }

  /** The server does a call. Returns what the reply does when it arrives. */
  #answer (
    call: Call,
    resolve: (reply: Reply) => void,
    reject: (error: unknown) => void
  ): () => void {
    try {
      const reply = this.#server.decide(call)
      if (call.lease !== null) this.#renewed()
      const changed = this.#faults.reply?.(reply) ?? reply
      return () => {
        if (this.#sender.isAlive) resolve(changed)
      }
    } catch (error) {
      return () => {
        if (this.#sender.isAlive) reject(error)
      }
    }
  }
}
