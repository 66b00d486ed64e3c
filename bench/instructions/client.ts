import { connect, type Socket } from 'node:net'
import { once } from 'node:events'

/** Sends requests sequentially on one keep-alive connection, with so little overhead that the server never waits for the client. */
export class Client {
  readonly #socket: Socket
  #received = ''
  #answered: (status: number) => void = () => {}

  private constructor (socket: Socket) {
    this.#socket = socket
    socket.setEncoding('latin1').on('data', (text) => { this.#take(String(text)) })
  }

  static async connect (port: number): Promise<Client> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    await once(socket, 'connect')
    return new Client(socket)
  }

  /**
   * Sends requests to a path, each after the response to the previous one.
   *
   * @param headers The headers of the requests, which are used in turn.
   * @throws {Error} If the last response has a different status, or if the connection fails.
   */
  async send (count: number, path: string, headers: readonly Readonly<Record<string, string>>[], status: number): Promise<void> {
    const requests = headers.map((each) => {
      const lines = Object.entries({ host: 'localhost', ...each }).map(([name, value]) => `${name}: ${value}\r\n`)
      return `GET ${path} HTTP/1.1\r\n${lines.join('')}\r\n`
    })
    const last = await new Promise<number>((resolve, reject) => {
      this.#socket.once('error', reject).once('close', () => { reject(new Error('the server closed the connection')) })
      let sent = 0
      const sendNext = (): void => { this.#socket.write(requests[sent++ % requests.length] ?? '') }
      this.#answered = (answer) => {
        if (sent === count) resolve(answer)
        else sendNext()
      }
      sendNext()
    })
    this.#socket.removeAllListeners('error').removeAllListeners('close')
    if (last !== status) throw new Error(`${path} was answered ${last} in place of ${status}`)
  }

  close (): void {
    this.#socket.destroy()
  }

  // All responses of these servers have a Content-Length.
  #take (text: string): void {
    this.#received += text
    const end = this.#received.indexOf('\r\n\r\n')
    if (end < 0) return
    const length = Number(/^content-length: (\d+)/im.exec(this.#received.slice(0, end))?.[1])
    if (this.#received.length < end + 4 + length) return
    const status = Number(this.#received.slice(9, 12))
    this.#received = ''
    this.#answered(status)
  }
}
