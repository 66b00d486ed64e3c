/**
 * An application path of an operation, and the options of the router that affect how it compares
 * paths.
 */
export interface Comparison {
  readonly path: string
  readonly prefix: string
  readonly options: {
    readonly caseSensitive: boolean
    readonly ignoreTrailingSlash: boolean
    readonly ignoreDuplicateSlashes: boolean
  }
}

/**
 * Condition 2 of docs/rules.md, "Subject", as it is worded there and without the code of lib:
 * whether a target reaches the operation behind a route that is not literal.
 */
export function isSpelledAs (
  { path, prefix, options }: Comparison,
  target: string,
  host: string
): boolean {
  const plain = plainPathOf(target, host, options.ignoreTrailingSlash)
  if (plain !== null) {
    return (
      comparable(plain, options) ===
      comparable(
        prefix + (path === '/' && prefix !== '' && !plain.endsWith('/') ? '' : path),
        options
      )
    )
  }
  const last = path.split('/').at(-1) ?? ''
  const segments = segmentsOf(target, host)
  return last === '' || segments === null || segments.includes(last.toLowerCase())
}

/** Returns a literal path in the form in which the router compares it. */
export function comparable (
  path: string,
  { caseSensitive, ignoreTrailingSlash, ignoreDuplicateSlashes }: Comparison['options']
): string {
  const single = ignoreDuplicateSlashes ? path.replace(/\/+/g, '/') : path
  const trimmed = ignoreTrailingSlash ? single.replace(/(.)\/$/, '$1') : single
  return caseSensitive ? trimmed : trimmed.toLowerCase()
}

function plainPathOf (target: string, host: string, mayEndWithSlash: boolean): string | null {
  if (!target.startsWith('/') || host === '' || /[/\\?#]/.test(host)) return null
  const segments: string[] = []
  for (const segment of target.replace(/\?.*/s, '').slice(1).split('/')) {
    try {
      segments.push(decodeURIComponent(segment))
    } catch {
      return null
    }
  }
  const isPlain = segments.every((segment, index) =>
    segment === ''
      ? mayEndWithSlash && index === segments.length - 1
      : segment !== '.' &&
        segment !== '..' &&
        segment.trim() === segment &&
        !/[/\\%?#;]|[^ -~]/.test(segment)
  )
  return isPlain ? `/${segments.join('/')}` : null
}

/** Returns null if the target still changes when it is decoded the eighth time. */
function segmentsOf (target: string, host: string): string[] | null {
  const text = `${host}/${target.startsWith('/') ? target.replace(/\?.*/s, '') : target}`
  const ofCharacters = segmentsOfBytes([...Buffer.from(text)])
  const ofBytes = segmentsOfBytes([...Buffer.from(text, 'latin1')])
  return ofCharacters === null || ofBytes === null ? null : [...ofCharacters, ...ofBytes]
}

function segmentsOfBytes (text: readonly number[]): string[] | null {
  let bytes = [...text]
  for (let time = 1; time <= 8; time++) {
    const decoded = decodedOnce(printable(bytes))
    if (decoded.length === bytes.length) {
      const stable = Buffer.from(bytes).toString()
      return stable.split(/[/\\?#;]/).map((segment) => segment.trim().toLowerCase())
    }
    bytes = decoded
  }
  return null
}

/** Every control character is one byte, or 0xC2 and one byte. */
function printable (bytes: readonly number[]): number[] {
  const kept: number[] = []
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] ?? 0
    const next = bytes[index + 1] ?? 0
    if (byte === 0xc2 && next >= 0x80 && next <= 0x9f) index += 1
    else if (byte >= 0x20 && byte !== 0x7f) kept.push(byte)
  }
  return kept
}

function decodedOnce (bytes: readonly number[]): number[] {
  const decoded: number[] = []
  for (let index = 0; index < bytes.length; index++) {
    const [percent = 0, ...digits] = bytes.slice(index, index + 3)
    const hex = String.fromCharCode(...digits)
    if (percent === 0x25 && /^[0-9a-f]{2}$/i.test(hex)) {
      decoded.push(Number.parseInt(hex, 16))
      index += 2
    } else decoded.push(percent)
  }
  return decoded
}
