import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Makes an application listen on a free loopback port and returns the port. */
export async function listen (app: FastifyInstance): Promise<number> {
  return Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
}

/**
 * Sends requests exactly as spelled over one real socket, one after another, and returns the status and body of each answer. Targets that
 * client libraries would change or reject arrive unchanged.
 */
export async function sendRaw (port: number, requests: readonly { method: string, target: string, headers?: string }[]) {
  const socket = connect(port, '127.0.0.1')
  const answers: { status: number, body: string }[] = []
  let received: Buffer = Buffer.alloc(0)
  const connection = { ended: false }
  let wake = (): void => {}
  socket.on('data', (chunk) => {
    received = Buffer.concat([received, chunk])
    wake()
  })
  socket.on('close', () => {
    connection.ended = true
    wake()
  })
  socket.on('error', () => {})
  for (const { method, target, headers = '' } of requests) {
    socket.write(Buffer.from(`${method} ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}Content-Length: 0\r\n\r\n`, 'latin1'))
    let answer = takeAnswer(received)
    while (answer === undefined && !connection.ended) {
      await new Promise<void>((resolve) => { wake = resolve })
      answer = takeAnswer(received)
    }
    if (answer === undefined) break
    received = answer.rest
    answers.push({ status: answer.status, body: answer.body })
  }
  socket.destroy()
  return answers
}

function takeAnswer (received: Buffer) {
  const end = received.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = received.subarray(0, end).toString('latin1')
  const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? 0)
  const start = end + 4
  if (received.length < start + length) return undefined
  return {
    status: Number(head.split(' ')[1]),
    body: received.subarray(start, start + length).toString(),
    rest: received.subarray(start + length)
  }
}
