import { connect } from 'node:net'
import type { FastifyInstance } from 'fastify'

// How long a server may be silent, in milliseconds.
const longestSilence = 10_000

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
 * Sends requests exactly as spelled, one after another, and returns the status and body of each
 * response; the status 0 if there was none. They share a socket as long as the server keeps it
 * open.
 */
export async function sendRaw (port: number, requests: readonly RawRequest[]) {
  const responses: { status: number; body: string }[] = []
  while (responses.length < requests.length) {
    const more = await sendOverOneSocket(port, requests.slice(responses.length))
    responses.push(...(more.length === 0 ? [{ status: 0, body: '' }] : more))
  }
  return responses
}

async function sendOverOneSocket (port: number, requests: readonly RawRequest[]) {
  const socket = connect(port, '127.0.0.1')
  const responses: { status: number; body: string }[] = []
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
  socket.setTimeout(longestSilence, () => {
    socket.destroy()
  })
  for (const { method, target, host = '127.0.0.1', headers = '' } of requests) {
    socket.write(
      Buffer.from(
        `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\n${headers}Content-Length: 0\r\n\r\n`,
        'latin1'
      )
    )
    let response = takeResponse(received)
    while (response === undefined && !connection.ended) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
      response = takeResponse(received)
    }
    if (response === undefined) break
    received = response.rest
    responses.push({ status: response.status, body: response.body })
  }
  socket.destroy()
  return responses
}

function takeResponse (received: Buffer) {
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
