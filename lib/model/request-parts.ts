import { isObject } from '../option-checks.js'
import { propertyOf } from './counts.js'

/** The images of a request. */
export interface RequestParts {
  readonly images: number
  /** The objects and lists with images, of which no text is read. */
  readonly omitted: ReadonlySet<unknown>
}

/** Properties of a body that hold parts of what a model reads. */
const namesInBody = [
  'messages',
  'input',
  'contents',
  'system',
  'systemInstruction',
  'system_instruction',
  'chat_history'
]

/** Properties of a part that hold other parts. */
const namesInPart = ['content', 'parts', 'output']

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
const namesOfFiles = [
  'audio', // OpenAI's earlier audio
  'attachments',
  'fileData',
  'file_data',
  'inlineData',
  'inline_data'
]

/** How deep parts can be nested: in the result of a tool, in a message. */
const deepest = 8

/**
 * Returns the images in what a model reads; null if it refers to what it does not hold, such as a
 * file, or has parts that are not known.
 */
export function partsIn (body: object): RequestParts | null {
  const omitted = new Set<unknown>()
  const images = imagesIn(body, namesInBody, omitted, deepest)
  return images === null ? null : { images, omitted }
}

/** Returns the number of images in some properties, and adds them to those that are omitted. */
function imagesIn (
  holder: object,
  names: readonly string[],
  omitted: Set<unknown>,
  depth: number
): number | null {
  if (depth === 0) return null
  let images = imagesOfOllama(holder, omitted)
  for (const name of names) {
    const held = propertyOf(holder, name)
    for (const part of Array.isArray(held) ? held : [held]) {
      if (!isObject(part)) continue
      const inPart = imagesOfPart(part, omitted, depth - 1)
      if (inPart === null) return null
      images += inPart
    }
  }
  return images
}

function imagesOfPart (part: object, omitted: Set<unknown>, depth: number): number | null {
  if (isImage(part)) {
    omitted.add(part)
    return 1
  }
  if (!isKnown(part)) return null
  const response = propertyOf(part, 'functionResponse')
  // What a function returned to Gemini can have parts of its own.
  const holder = isObject(response) ? response : part
  return imagesIn(holder, namesInPart, omitted, depth)
}

/** Counts the list `images` of a message of Ollama. */
function imagesOfOllama (holder: object, omitted: Set<unknown>): number {
  const images = propertyOf(holder, 'images')
  if (!Array.isArray(images)) return 0
  omitted.add(images)
  return images.length
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
  if (namesOfFiles.some((name) => propertyOf(part, name) != null)) return false
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
