import { finished, Readable } from 'node:stream'
import { formatType } from '../errors.js'
import { hasFunction, isObject } from '../option-checks.js'
import { ignoreRejection } from '../promises.js'
import { BodyReader } from './body-reader.js'
import type { ModelUsage } from './usage.js'

/**
 * The body of a response: bytes that arrive one part after the other; null for none. A stream of
 * Node.js must have no encoding, with which it would give strings.
 */
export type ModelBody = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | null

/** How a body that was passed on has ended, and what was read in it. */
export interface BodyEnd {
  /** The usage as last stated; null if none was. */
  readonly usage: ModelUsage | null
  /**
   * The bytes in UTF-8 of what the model wrote: content, reasoning and arguments of tools, without
   * what surrounds them, and without encoded images and sound.
   */
  readonly textBytes: number
  /** Whether the body ended as its API ends one, with a usage that no further text followed. */
  readonly isComplete: boolean
  /** The name of the model; null if it was not stated. */
  readonly model: string | null
  /**
   * Who ended it early: who reads the stream, or the source, which failed or ended before its API
   * does; null if nobody did.
   */
  readonly by: 'caller' | 'source' | null
  /** False if not all of the body could be read, for example because it is compressed. */
  readonly isReadable: boolean
}

/** Whether a value is a body that `meterBody` can pass on. */
export function isModelBody (value: unknown): value is ModelBody {
  if (value === null) return true
  if (hasFunction(value, 'getReader')) return true
  if (typeof value !== 'object') return false
  return Symbol.asyncIterator in value && !hasEncoding(value)
}

/** Whether a value is a stream of Node.js that gives strings. */
function hasEncoding (value: object): boolean {
  return 'readableEncoding' in value && value.readableEncoding != null
}

/**
 * Returns a stream of the bytes of a body, as they arrive, and reads the usage of a model in them.
 * The source is read only as fast as the stream is, and is cancelled when the stream is destroyed.
 *
 * @param body The body; null is an empty one.
 * @param onEnd Called once, before the stream ends or when it is destroyed.
 */
export function meterBody (body: ModelBody, onEnd: (end: BodyEnd) => void): Readable {
  return new MeteredBody(body, onEnd)
}

class MeteredBody extends Readable {
  readonly #source: Source
  readonly #reader = new BodyReader()
  readonly #onEnd: (end: BodyEnd) => void
  /** What it is piped to, and whether it ends that. */
  readonly #destinations = new Map<NodeJS.WritableStream, boolean>()
  #hasEnded = false

  constructor (body: ModelBody, onEnd: (end: BodyEnd) => void) {
    super()
    this.#source = sourceOf(body)
    this.#onEnd = onEnd
    // The source can fail before anybody listens, for example during an `onSend` hook: the error
    // must not end the process. Whoever reads the stream later still gets it.
    this.on('error', ignoreError)
    this.#source.onFailure(this.#fail)
  }

  /**
   * As `pipe` of any stream, but for what others leave to `pipeline`. If the destination closes,
   * this stream is destroyed unless somebody else reads it. If this stream fails and nobody listens
   * for its error, the destination is destroyed.
   */
  override pipe<Destination extends NodeJS.WritableStream>(
    destination: Destination,
    options?: { readonly end?: boolean | undefined }
  ): Destination {
    super.pipe(destination, options)
    this.#destinations.set(destination, options?.end !== false)
    const forget = finished(destination, { readable: false, error: false }, () => {
      this.unpipe(destination)
      // A host that goes on reading on purpose has resumed this stream by then.
      process.nextTick(() => {
        if (!this.#isRead) this.destroy()
      })
    })
    this.once('close', forget)
    if (this.errored !== null) this.#breakOff()
    return destination
  }

  override unpipe (destination?: NodeJS.WritableStream): this {
    if (destination === undefined) this.#destinations.clear()
    else this.#destinations.delete(destination)
    return super.unpipe(destination)
  }

  /** Whether somebody reads it. A stream of Node.js pauses when its last destination has closed. */
  get #isRead (): boolean {
    if (this.#destinations.size > 0 || this.readableFlowing === true) return true
    return this.listenerCount('readable') > 0
  }

  // Functions of the promise instead of an async function, which would take a third more time for
  // each part of 300 bytes.
  override _read (): void {
    try {
      this.#source.next().then(this.#take, this.#fail)
    } catch (error) {
      this.#fail(error)
    }
  }

  override _destroy (error: Error | null, callback: (error: Error | null) => void): void {
    if (!this.#hasEnded) {
      this.#reader.cutOff()
      this.#end('caller')
      this.#source.cancel(error)
    }
    callback(error)
  }

  /** Passes the next bytes on, or ends the stream. */
  readonly #take = (part: Part): void => {
    if (this.destroyed) return
    if (!isObject(part)) {
      this.#fail(new TypeError(`the body must be an async iterable; it got ${formatType(part)}`))
      return
    }
    if (part.done === true) {
      this.#reader.end()
      this.#end(this.#reader.hasLastChunk ? null : 'source')
      this.push(null)
      return
    }
    const { value } = part
    if (!(value instanceof Uint8Array)) {
      this.#fail(new TypeError(`the body must consist of bytes; it got ${formatType(value)}`))
      return
    }
    this.#reader.write(value)
    // An empty part would make the stream wait for a read that does not come.
    if (value.length === 0) this._read()
    else this.push(value)
  }

  readonly #fail = (error: unknown): void => {
    if (this.destroyed || this.#hasEnded) return
    this.#reader.cutOff()
    this.#end('source')
    this.#source.cancel(error)
    this.destroy(error instanceof Error ? error : new Error('the body failed', { cause: error }))
    this.#breakOff()
  }

  /** Destroys what it is piped to if nobody else gets its error, because that would never end. */
  #breakOff (): void {
    if (this.listeners('error').some((listener) => listener !== ignoreError)) return
    for (const [destination, isEnded] of this.#destinations) {
      if (isEnded) destroyDestination(destination)
    }
  }

  #end (by: BodyEnd['by']): void {
    this.#hasEnded = true
    const { usage, textBytes, model, isComplete, isReadable } = this.#reader
    this.#onEnd({ usage, textBytes, model, isComplete, by, isReadable })
  }
}

function ignoreError (): void {}

function destroyDestination (destination: NodeJS.WritableStream): void {
  if ('destroy' in destination && typeof destination.destroy === 'function') destination.destroy()
}

/** What a source returns: its next bytes, or that there are no more. */
interface Part {
  readonly done?: boolean | undefined
  readonly value?: unknown
}

/** Where the bytes come from. */
interface Source {
  next(): Promise<Part>
  /**
   * Calls a function when the source fails, also while it is not read: otherwise, a client that
   * stays connected and reads nothing would keep its response open beyond the host's time limit.
   */
  onFailure(fail: (error: unknown) => void): void
  /** Tells the source that nobody reads it any more. Never throws. */
  cancel(reason: unknown): void
}

function sourceOf (body: ModelBody): Source {
  if (body === null) return sourceOfIterable(Readable.from([]))
  if ('getReader' in body) return sourceOfWebStream(body)
  return sourceOfIterable(body)
}

function sourceOfWebStream (body: ReadableStream<Uint8Array>): Source {
  const reader = body.getReader()
  return {
    next: () => reader.read(),
    onFailure: (fail) => {
      reader.closed.then(undefined, fail)
    },
    cancel: (reason) => ignoreRejection(reader.cancel(reason))
  }
}

function sourceOfIterable (body: AsyncIterable<Uint8Array>): Source {
  const iterator = body[Symbol.asyncIterator]()
  return {
    next: () => Promise.resolve(iterator.next()),
    onFailure: (fail) => {
      if (!(body instanceof Readable)) return
      finished(body, { writable: false }, (error) => {
        if (error != null) fail(error)
      })
    },
    cancel: (reason) => {
      try {
        // The iterator of a stream of Node.js would end only after the next bytes.
        if ('destroy' in body && typeof body.destroy === 'function') body.destroy()
        else ignoreRejection(iterator.return?.(reason))
      } catch {
        // Nobody waits for the source any more.
      }
    }
  }
}
