/** How often a target is decoded at most. */
const mostPasses = 8

const query = /\?.*/s
const encodedSlash = /%2f/i
const encodedByte = /%[0-9a-f]{2}/gi

/** Everything but the printable characters of ASCII. HTTP/2 servers accept it in a target. */
const notAscii = /[^ -~]/

// In Node.js, each byte of a target is one character. Readers can take the characters as they are,
// or the bytes as UTF-8. For ASCII, both are the same.
const readings = ['utf8', 'latin1'] as const
const firstReading = ['utf8'] as const

/** A control character in UTF-8, one character a byte: in ASCII, or in two bytes after it. */
const controlBytes = /[^ -~\x80-\xff]|\xc2[\x80-\x9f]/g

/** Where some reader of a target ends a segment. */
const separator = /[/\\?#;]/

/**
 * What a plain path, decoded once, does not contain beside what is not ASCII: separators of other
 * readers, empty and dot segments, and spaces at the ends of a segment.
 */
const odd = /[\\%?#;]|\/(?:\/| |\.{1,2}(?:\/|$))| (?:\/|$)/

/**
 * An empty host makes the first segment of the path the host. A "?" or "#" in it makes the whole
 * path a part of the query or fragment.
 */
const plainHost = /^[^/\\?#]+$/

/**
 * Returns the decoded path of a request target (RFC 9112, section 3.2) that every router, handler
 * and proxy reads alike; null for any other target. `mayEndWithSlash` is whether the router ignores
 * a trailing slash.
 */
export function plainPath (target: string, host: string, mayEndWithSlash: boolean): string | null {
  const path = target.replace(query, '')
  if (!path.startsWith('/') || !plainHost.test(host)) return null
  if (encodedSlash.test(path)) return null
  const decoded = decodedOnce(path)
  if (decoded === null || notAscii.test(decoded) || odd.test(decoded)) return null
  return decoded.endsWith('/') && !mayEndWithSlash ? null : decoded
}

function decodedOnce (path: string): string | null {
  try {
    return path.includes('%') ? decodeURIComponent(path) : path
  } catch {
    return null
  }
}

/**
 * Returns the segments of a target that is not plain, in which anyone could read an operation's
 * path: those of the decoded text, in letters of one case. Null if the text still changes when it
 * is decoded for the last time, so that it can be any path.
 */
export function oddSegments (target: string, host: string): readonly string[] | null {
  const path = target.startsWith('/') ? target.replace(query, '') : target
  const text = `${host}/${path}`
  const segments: string[] = []
  for (const encoding of notAscii.test(text) ? readings : firstReading) {
    const read = segmentsOf(Buffer.from(text, encoding))
    if (read === null) return null
    for (const segment of read) segments.push(segment)
  }
  return segments
}

/**
 * Returns the last segment of an operation's path, as `oddSegments` has it; null if it has none.
 */
export function lastSegment (path: string): string | null {
  return segmentsOf(Buffer.from(path))?.findLast((segment) => segment !== '') ?? null
}

/** Returns the segments of a text in UTF-8; null if it still changes when decoded the last time. */
function segmentsOf (text: Buffer): readonly string[] | null {
  const decoded = decodedInPasses(text)
  if (decoded === null) return null
  return inOneCase(decoded)
    .split(separator)
    .map((segment) => segment.trim())
}

/**
 * Decodes a text repeatedly until nothing changes, and removes control characters before each
 * time. Malformed encodings are not changed. Returns null if it still changes the last time.
 */
function decodedInPasses (text: Buffer): string | null {
  // One character a byte, because the bytes of one character can be encoded more or less often.
  let bytes = text.toString('latin1')
  for (let pass = 0; pass < mostPasses; pass++) {
    const decoded = bytes.replace(controlBytes, '').replace(encodedByte, byteOf)
    if (decoded === bytes) return Buffer.from(bytes, 'latin1').toString()
    bytes = decoded
  }
  return null
}

function byteOf (encoded: string): string {
  return String.fromCharCode(parseInt(encoded.slice(1), 16))
}

/**
 * Puts letters of any case into one: first lower and then upper case, because the Kelvin sign has
 * the lower case of "K" but not its upper case, and "ς" has only the upper case of "σ".
 */
function inOneCase (text: string): string {
  return text.toLowerCase().toUpperCase()
}
