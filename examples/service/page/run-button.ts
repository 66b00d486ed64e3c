import { byId, setText } from './document.js'
import { secondsOf } from './numbers.js'
import { usedOf } from './quotas.js'
import { type Now, now, onStanding, type QuotaNow } from './standing.js'

const button = byId('run-button', HTMLButtonElement)
const box = byId('limit-reached', HTMLElement)
const message = byId('limit-message', HTMLElement)
const progress = byId('progress', HTMLElement)

let running = false
let rejection = ''
let full: QuotaNow | undefined

/** Updates the button with each change of the standing. */
export function keepButton (): void {
  onStanding(draw)
}

/** Whether an operation can run now. */
export function canRun (): boolean {
  return !running && fullOf(now()) === undefined
}

/** Disables the button while an operation runs. */
export function setRunning (value: boolean): void {
  running = value
  draw(now())
}

/** Shows the message of a rejection while a limit is reached. Returns whether a limit is reached. */
export function showRejection (words: string): boolean {
  rejection = words
  draw(now())
  return full !== undefined
}

function draw (standing: Now | undefined): void {
  const before = full
  full = fullOf(standing)
  // Uses aria-disabled instead of `disabled`, so that the button keeps the keyboard focus.
  if (running || full !== undefined) button.setAttribute('aria-disabled', 'true')
  else button.removeAttribute('aria-disabled')
  setText(button, running ? 'Running…' : full === undefined ? 'Run' : `Run again in ${secondsOf(full.left)}`)
  if (full === undefined) rejection = ''
  else setText(message, rejection === '' ? `Limit reached: ${usedOf(full)}.` : rejection)
  box.hidden = full === undefined
  box.className = rejection === '' ? 'notice' : 'rejection'
  if (before !== undefined && full === undefined && standing !== undefined) progress.textContent = 'You can run operations again.'
}

// Of the quotas that reject every operation now, the one with the longest wait.
function fullOf (standing: Now | undefined): QuotaNow | undefined {
  return standing?.quotas.filter(({ isFull, left }) => isFull && left > 0).sort((one, other) => other.left - one.left)[0]
}
