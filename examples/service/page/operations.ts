import { type Sentence, showAnalysis, showJustification, showScores, showSentence } from './answers.js'
import { coolDown, isCoolingDown } from './cooldown.js'
import { byId, element } from './document.js'
import { eventsOf, messageOf, send, unreachable } from './service.js'

const form = byId('run', HTMLFormElement)
const address = byId('address', HTMLElement)
const refusal = byId('refusal', HTMLElement)
const refusalMessage = byId('refusal-message', HTMLElement)
const progress = byId('progress', HTMLElement)
const answer = byId('answer', HTMLElement)

interface Operation {
  readonly method: 'GET' | 'POST'
  readonly fields: readonly string[]
  readonly show: (response: Response) => Promise<void>
}

const operations: Record<string, Operation> = {
  analyze: { method: 'POST', fields: ['businessText'], show: async (response) => { answer.replaceChildren(...showAnalysis(await response.json())) } },
  'justify-leaf': { method: 'POST', fields: ['businessText', 'leaf'], show: async (response) => { answer.replaceChildren(...showJustification(await response.json())) } },
  'analyze-node': { method: 'GET', fields: ['businessText', 'parentCode'], show: async (response) => { answer.replaceChildren(...showScores(await response.json())) } },
  'analyze-stream': { method: 'GET', fields: ['businessText'], show: showStream }
}

/** Makes the form run the operation that is chosen. */
export function offerOperations (): void {
  form.addEventListener('change', choose)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    if (!isCoolingDown()) run().catch(() => { refuseWith(unreachable) })
  })
  choose()
}

function chosen (): { name: string, operation: Operation, fields: Record<string, string> } {
  const values = new FormData(form)
  const name = String(values.get('operation'))
  const operation = operations[name]
  if (operation === undefined) throw new Error(`there is no operation ${name}`)
  return { name, operation, fields: Object.fromEntries(operation.fields.map((field) => [field, String(values.get(field))])) }
}

// A field that an operation does not have is neither seen nor asked for.
function choose (): void {
  const { name, operation } = chosen()
  address.textContent = `${operation.method} /api/${name}`
  for (const label of form.querySelectorAll<HTMLElement>('[data-for]')) {
    label.hidden = label.dataset['for'] !== name
    for (const field of label.querySelectorAll<HTMLInputElement | HTMLSelectElement>('input, select')) field.disabled = label.hidden
  }
}

async function run (): Promise<void> {
  const { name, operation, fields } = chosen()
  refusal.hidden = true
  progress.textContent = 'The model reads…'
  const response = operation.method === 'POST'
    ? await send(`/api/${name}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(fields) })
    : await send(`/api/${name}?${new URLSearchParams(fields).toString()}`)
  if (!response.ok) {
    await refuse(response)
    return
  }
  answer.hidden = false
  await operation.show(response)
  progress.textContent = 'Done.'
}

async function refuse (response: Response): Promise<void> {
  refuseWith(await messageOf(response))
  const retryAfter = Number(response.headers.get('retry-after'))
  if (retryAfter > 0) coolDown(retryAfter)
}

function refuseWith (message: string): void {
  progress.textContent = ''
  answer.hidden = true
  refusal.hidden = false
  refusalMessage.textContent = message
}

async function showStream (response: Response): Promise<void> {
  const list = element('ol')
  answer.replaceChildren(element('h3', {}, 'Sentence by sentence'), list)
  for await (const { event, data } of eventsOf(response)) {
    if (event !== 'sentence') continue
    list.append(showSentence(data as Sentence))
    progress.textContent = `Sentence ${list.childElementCount} has arrived.`
  }
}
