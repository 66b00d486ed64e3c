// The network of a simulation: calls and replies wait until a test delivers, loses or repeats them.
import type { Call, Driver, Reply } from '../../lib/store/shared/driver.js'
import type { DriverServer } from '../support/driver-server.js'

/** A connection of a process to a server. */
export interface Link {
  /** Whether its process lives. A dead one sends nothing and receives nothing. */
  isAlive: boolean
  /** When a call or a reply was last lost, or late. */
  troubledAt: number
}

/** A call or a reply that is on its way. */
export interface Message {
  readonly kind: 'call' | 'reply'
  readonly link: Link
  readonly sentAt: number
  /** What happens when it arrives. */
  readonly arrive: () => void
  /** The process loses its connection. The message can still arrive. */
  readonly reset: () => void
  /** Whether it can arrive twice, because it only frees and renews places. */
  readonly canBeRepeated: boolean
}

/** All that is on its way. */
export class Network {
  readonly messages: Message[] = []
  /** How many messages were sent so far. */
  sent = 0

  /** The client of a process, which sends its calls to a server. */
  driverTo (server: DriverServer, link: Link): Driver {
    return {
      mostDemands: server.mostDemands,
      hasJournal: server.hasJournal,
      connect: () => ({ run: (call) => this.#call(server, link, call), release () {} }),
      forget: (counters, callerKey) => server.forget(counters, callerKey),
      list: (counters, cursor) => server.list(counters, cursor),
      inspect: () => server.inspect(),
      clear: () => server.clear()
    }
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

  #call (server: DriverServer, link: Link, call: Call): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (!link.isAlive) return
      const reset = (): void => {
        reject(new Error('the connection was lost'))
      }
      const arrive = async (): Promise<void> => {
        const reply = await server.decide(call)
        const receive = (): void => {
          if (link.isAlive) resolve(reply)
        }
        this.#send({ kind: 'reply', link, arrive: receive, reset, canBeRepeated: false })
      }
      const canBeRepeated = call.requests.length === 0 && call.settlements.length === 0
      this.#send({ kind: 'call', link, arrive, reset, canBeRepeated })
    })
  }

  #send (message: Omit<Message, 'sentAt'>): void {
    this.messages.push({ ...message, sentAt: performance.now() })
    this.sent += 1
  }
}
