const percent = 0x25
// The value of each byte as a hexadecimal digit; -1 for any other byte.
const digits = Int8Array.from({ length: 256 }, (_, byte) =>
  '0123456789abcdef'.indexOf(String.fromCharCode(byte).toLowerCase())
)
const digit = (byte: number | undefined): number => Number(digits[Number(byte)])
const query = /\?.*/s
const encodedOrControl = /[%\p{Cc}]/u
const separator = '[/\\\\?#;]'
// What a plain path, decoded once, does not contain: separators of other readers, control
// characters, empty and dot segments, and white space at the ends of a segment.
const odd = /[\\%?#;\p{Cc}]|\/(?:\/|\s|\.{1,2}(?:\/|$))|\s(?:\/|$)/u
// An empty host makes the first segment of the path the host. A "?" or "#" in it makes the whole
// path a part of the query or fragment.
const plainHost = /^[^/\\?#]+$/

/**
 * Returns the decoded path of a request target (RFC 9112, section 3.2) that every router, handler
 * and proxy reads alike; null for any other target. `mayEndWithSlash` is whether the router ignores
 * a trailing slash.
 */
export function plainPath (target: string, host: string, mayEndWithSlash: boolean): string | null {
  const path = target.replace(query, '')
  if (!path.startsWith('/') || !plainHost.test(host)) return null
  try {
    // An encoded slash becomes a backslash, which is odd.
    const decoded = path.includes('%') ? decodeURIComponent(path.replace(/%2f/gi, '%5c')) : path
    return odd.test(decoded) || (decoded.endsWith('/') && !mayEndWithSlash) ? null : decoded
  } catch {
    return null
  }
}

/**
 * Returns the text of a target that is not plain, decoded in full, in which anyone could read an
 * operation's path. It is in lower case and then in upper case, so that letters of any case are
 * alike: the Kelvin sign has the lower case of "K" but not its upper case, and "ς" has only the
 * upper case of "σ".
 */
export function fullyDecoded (target: string, host: string): string {
  return decodedInFull(`${host}/${target.startsWith('/') ? target.replace(query, '') : target}`)
    .toLowerCase()
    .toUpperCase()
}

/**
 * Returns an expression for the fully decoded texts that have the last segment of an operation's
 * path; for all texts if it has none.
 */
export function containingLastSegment (path: string): RegExp {
  const segments = fullyDecoded(path, '')
    .split(new RegExp(separator))
    .map((segment) => segment.trim())
  const segment = segments.findLast((each) => each !== '')?.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  // The segment comes first, because V8 searches for plain text faster than for anything else.
  return segment === undefined
    ? /^/
    : new RegExp(`${segment}(?<=(?:^|${separator})\\s*${segment})(?=\\s*(?:${separator}|$))`)
}

/**
 * Decodes a text until nothing changes, dropping control characters before each time, in one pass.
 * Malformed encodings are not changed.
 */
function decodedInFull (text: string): string {
  if (!encodedOrControl.test(text)) return text
  const bytes = Buffer.from(text)
  let length = 0
  for (let byte of bytes) {
    // A decoded byte, or one that follows a dropped control character, can complete another
    // percent-encoding.
    while (byte >= 0x20 && byte !== 0x7f) {
      // The bytes C2 80 to C2 9F are control characters, too.
      if (byte >= 0x80 && byte <= 0x9f && bytes[length - 1] === 0xc2) {
        length -= 1
        break
      }
      bytes[length++] = byte
      byte =
        bytes[length - 3] === percent
          ? (digit(bytes[length - 2]) << 4) | digit(bytes[length - 1])
          : -1
      if (byte >= 0) length -= 3
    }
  }
  return bytes.toString('utf8', 0, length)
}
