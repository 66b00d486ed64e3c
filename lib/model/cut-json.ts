/** The beginning of an escape in a string of JSON. */
const cutEscape = /^\\(?:u[0-9a-f]{0,3})?$/i

/**
 * Returns the JSON of an object or array that was cut off, closed where it was cut: a string ends
 * there, and a name or number that may not be whole is left out. If the text is not the beginning
 * of such JSON, what it returns is none.
 */
export function closeJson (text: string): string {
  /** What closes the objects and arrays that are open. */
  const brackets: string[] = []
  /** Where the text can be closed: at the end of its last value that is whole. */
  let end = 0
  let isInString = false
  let isName = false
  /** Whether the next string of an object is a name. */
  let isNameNext = false
  /** Where the last escape begins. */
  let escape = text.length
  for (let position = 0; position < text.length; position += 1) {
    const character = text.charAt(position)
    if (isInString) {
      if (character === '\\') {
        escape = position
        position += 1
      } else if (character === '"') {
        isInString = false
        if (!isName) end = position + 1
      }
      continue
    }
    if (character === '"') {
      isInString = true
      isName = isNameNext && brackets.at(-1) === '}'
      isNameNext = false
    } else if (character === '{' || character === '[') {
      brackets.push(character === '{' ? '}' : ']')
      isNameNext = true
      end = position + 1
    } else if (character === '}' || character === ']') {
      brackets.pop()
      end = position + 1
    } else if (character === ',') {
      isNameNext = true
      end = position
    }
  }
  const closing = brackets.reverse().join('')
  if (!isInString || isName) return text.slice(0, end) + closing
  const string = cutEscape.test(text.slice(escape)) ? text.slice(0, escape) : text
  return `${string}"${closing}`
}
