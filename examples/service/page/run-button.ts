import { byId } from './document.js'
import { inFull, secondsOf } from './numbers.js'
import { type Now, now, onStanding } from './standing.js'

const button = byId('run-button', HTMLButtonElement)
const box = byId('limit-reached', HTMLElement)
const message = byId('limit-message', HTMLElement)
const countdown = byId('countdown', HTMLElement)
const progress = byId('progress', HTMLElement)

let running = false
let rejection = ''
let full = false

/** Updates the button with each change of the window. */
export function keepButton (): void {
  onStanding(draw)
}

/** Whether an operation can run now. */
export function canRun (): boolean {
  return !running && now()?.full !== true
}

/** Disables the button while an operation runs. */
export function setRunning (value: boolean): void {
  running = value
  draw(now())
}

/** Shows the message of a rejection while the limit is reached. Returns whether the limit is reached. */
export function showRejection (words: string): boolean {
  rejection = words
  draw(now())
  return full
}

function draw (standing: Now | undefined): void {
  const before = full
  full = standing?.full === true
  const wait = secondsOf(standing?.left ?? 0)
  // Uses aria-disabled instead of `disabled`, so that the button keeps the keyboard focus.
  if (running || full) button.setAttribute('aria-disabled', 'true')
  else button.removeAttribute('aria-disabled')
  setText(button, running ? 'Running…' : full ? `Run again in ${wait}` : 'Run')
  box.hidden = !full
  if (full && standing !== undefined) {
    setText(message, rejection === '' ? `Limit reached: ${inFull(standing.admitted)} of ${inFull(standing.limit)} requests used.` : rejection)
    setText(countdown, wait)
  } else {
    rejection = ''
  }
  if (before && !full && standing !== undefined) progress.textContent = standing.left > 0 ? 'You can run operations again.' : 'Your window has ended. You can run operations again.'
}

// Screen readers announce a text again if it is set again, so unchanged texts are not set.
function setText (element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text
}
