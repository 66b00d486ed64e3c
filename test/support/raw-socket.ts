import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Makes an application listen on a free loopback port and returns the port. */
export async function listen (app: FastifyInstance): Promise<number> {
  return Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
}

/** A request as it is spelled on a socket. */
export interface RawRequest {
  readonly method: string
  readonly target: string
  /** The `Host` header. Default 127.0.0.1. */
  readonly host?: string
  /** Further header lines, each with its line end. */
  readonly headers?: string
}

/**
 * Sends requests exactly as spelled, one after another, and returns the status and body of each answer; the status 0 if there was none. Targets
 * that client libraries would change or reject arrive unchanged. They share a socket as long as the server keeps it open.
 */
export async function sendRaw (port: number, requests: readonly RawRequest[]) {
  const answers: { status: number, body: string }[] = []
  while (answers.length < requests.length) {
    const answered = await sendOverOneSocket(port, requests.slice(answers.length))
    answers.push(...answered.length === 0 ? [{ status: 0, body: '' }] : answered)
  }
  return answers
}

async function sendOverOneSocket (port: number, requests: readonly RawRequest[]) {
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
  for (const { method, target, host = '127.0.0.1', headers = '' } of requests) {
    socket.write(Buffer.from(`${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n${headers}Content-Length: 0\r\n\r\n`, 'latin1'))
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
