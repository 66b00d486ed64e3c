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
 * Rule 2 of "Which requests", written as the documents word it and without the code of lib: whether
 * a target reaches the operation behind a route that is not literal.
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
  return last === '' || segmentsOf(target, host).includes(last.toLowerCase())
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
        !/[/\\%?#;\p{Cc}]/u.test(segment)
  )
  return isPlain ? `/${segments.join('/')}` : null
}

function segmentsOf (target: string, host: string): string[] {
  const bytes = Buffer.from(
    `${host}/${target.startsWith('/') ? target.replace(/\?.*/s, '') : target}`
  ).toString('latin1')
  const text = Buffer.from(decodedInFull(bytes), 'latin1').toString()
  return text.split(/[/\\?#;]/).map((segment) => segment.trim().toLowerCase())
}

/** @param bytes A text in UTF-8, one character a byte. */
function decodedInFull (bytes: string): string {
  // Every control character is one byte, or 0xC2 and one byte.
  const printable = bytes.replace(/\u00c2[\u0080-\u009f]|[^ -\u00ff]|\u007f/g, '')
  const decoded = printable.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(parseInt(hex, 16))
  )
  return decoded === bytes ? decoded : decodedInFull(decoded)
}
