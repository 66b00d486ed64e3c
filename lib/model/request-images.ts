import { isObject } from '../option-checks.js'
import { inAnyCase, valuesIn, type NamesInAnyCase } from './any-case.js'
import { propertyOf } from './counts.js'

/** The images of a request. */
export interface RequestImages {
  readonly count: number
  /** The objects and lists that hold them, of which no text is read. */
  readonly holders: ReadonlySet<unknown>
}

/** Properties of a body that hold parts of what a model reads. */
const namesInBody = inAnyCase(
  'messages',
  'input',
  'contents',
  'system',
  'systemInstruction',
  'system_instruction',
  'chat_history'
)

/** Properties of a part that hold other parts. */
const namesInPart = inAnyCase('content', 'parts', 'output')

/** Types of parts that hold all of their text. */
const textTypes = new Set([
  'text',
  'input_text',
  'output_text',
  'refusal',
  'message',
  'thinking',
  'redacted_thinking',
  'tool_use',
  'tool_result',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
  'search_result'
])

/** Types of parts that are images. */
const imageTypes = new Set(['image', 'image_url', 'input_image'])

/** What Gemini's parts, which have no type, can hold besides an image. */
const geminiTextNames = new Set([
  'text',
  'thought',
  'thoughtSignature',
  'functionCall',
  'functionResponse'
])

/** Properties of a part or message that refer to a file, or hold one that is no image. */
const namesOfFiles = inAnyCase(
  'audio', // OpenAI's earlier audio
  'attachments',
  'fileData',
  'file_data',
  'inlineData',
  'inline_data'
)

/** How deep parts can be nested: in the result of a tool, in a message. */
const deepest = 8

/**
 * Returns the images in what a model reads; null if it refers to what it does not hold, such as a
 * file, or has parts that are not known.
 */
export function imagesOf (body: object): RequestImages | null {
  const holders = new Set<unknown>()
  const count = countIn(body, namesInBody, holders, deepest)
  return count === null ? null : { count, holders }
}

/** Returns the number of images in some properties, and adds what holds them to the holders. */
function countIn (
  value: object,
  names: NamesInAnyCase,
  holders: Set<unknown>,
  depth: number
): number | null {
  if (depth === 0) return null
  let count = countOfOllama(value, holders)
  for (const part of valuesIn(value, names).flat()) {
    if (!isObject(part)) continue
    const inPart = countOfPart(part, holders, depth - 1)
    if (inPart === null) return null
    count += inPart
  }
  return count
}

function countOfPart (part: object, holders: Set<unknown>, depth: number): number | null {
  if (isImage(part)) {
    holders.add(part)
    return 1
  }
  if (!isKnown(part)) return null
  const response = propertyOf(part, 'functionResponse')
  // What a function returned to Gemini can have parts of its own.
  return countIn(isObject(response) ? response : part, namesInPart, holders, depth)
}

const imagesNames = inAnyCase('images')

/** Counts the list `images` of a message of Ollama. */
function countOfOllama (value: object, holders: Set<unknown>): number {
  let count = 0
  for (const images of valuesIn(value, imagesNames)) {
    if (!Array.isArray(images)) continue
    holders.add(images)
    count += images.length
  }
  return count
}

/** Whether a part is an image that the request holds or links to. */
function isImage (part: object): boolean {
  const inline = propertyOf(part, 'inlineData') ?? propertyOf(part, 'inline_data')
  if (isObject(inline)) {
    const type = propertyOf(inline, 'mimeType') ?? propertyOf(inline, 'mime_type')
    return typeof type === 'string' && type.startsWith('image/')
  }
  const type = propertyOf(part, 'type')
  return typeof type === 'string' && imageTypes.has(type) && !isFile(part)
}

/** Whether a part refers to a file that was uploaded before. */
function isFile (part: object): boolean {
  const source = propertyOf(part, 'source')
  const places = isObject(source) ? [part, source] : [part]
  return places.some((place) => propertyOf(place, 'file_id') != null)
}

/** Whether a part is one that holds all that the model reads of it. */
function isKnown (part: object): boolean {
  if (valuesIn(part, namesOfFiles).some((file) => file != null)) return false
  const type = propertyOf(part, 'type')
  if (type === 'document') return holdsText(part)
  if (type === 'reasoning') return propertyOf(part, 'encrypted_content') != null
  if (type !== undefined) return typeof type === 'string' && textTypes.has(type)
  // A message, or a part of Gemini.
  if (['role', 'content', 'parts', 'message'].some((name) => name in part)) return true
  return Object.keys(part).every((name) => geminiTextNames.has(name))
}

/** Whether a document of Anthropic's is text, and not a file of another kind. */
function holdsText (document: object): boolean {
  const source = propertyOf(document, 'source')
  if (!isObject(source)) return false
  const type = propertyOf(source, 'type')
  if (type === 'content') return typeof propertyOf(source, 'content') === 'string'
  return type === 'text'
}
