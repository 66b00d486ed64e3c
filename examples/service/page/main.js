import { html, nothing, render } from '/lit-html/lit-html.js'
import { administration } from './administration.js'
import { answerCard, runCard } from './run.js'
import { messageOf, send, unreachable } from './service.js'
import { refresh, standingNow } from './standing.js'
import { change, onChange, signIn, signOut, state } from './state.js'
import { windowCard } from './window.js'

function page () {
  const { user, notice, quotas, caller } = state
  const on = standingNow()
  const title =
    quotas === null
      ? 'A quota for model calls'
      : (on[0]?.limitWords ?? 'Model calls without a limit')
  const who = html`Signed in as <strong>${user?.name}</strong>, counted as
    <code>${caller.slice(0, 8)}</code>`
  return html` <a class="skip" href="#operations">Skip to the operations</a>
    <header>
      <p class="brand"><img src="/icon.svg" alt="" width="36" height="36" /> Language service</p>
      <div class="account">
        <p id="who" role="status">${user === null ? 'Not signed in' : who}</p>
        ${
          user === null
            ? nothing
            : html`<button
                class="quiet"
                @click=${() => {
                  signOut()
                }}
              >
                Sign out
              </button>`
        }
      </div>
    </header>
    <main>
      <div class="intro">
        <h1>${title}</h1>
        <p id="intro">Four operations read your text with a language model. ${scope(on)}</p>
      </div>
      ${notice === '' ? nothing : noticeOf(notice)} ${user === null ? signInCard() : nothing}
      <div class="columns">${runCard()} ${windowCard()} ${answerCard()}</div>
      ${user?.isAdministrator && quotas !== null ? administration() : nothing}
    </main>
    <footer>
      The example of <code>fastify-llm-quota</code>. <a href="/documentation">API documentation</a>
    </footer>`
}

function noticeOf (notice) {
  return html`<div id="notice" class="notice" role="alert"><p>${notice}</p></div>`
}

function scope ([first, ...more]) {
  if (state.quotas === null) return 'Sign in to see how often you can run them.'
  if (first === undefined) return 'Each caller can run them as often as they like.'
  const further = more.map(({ limitWords }) => limitWords).join(', ')
  return `This limit applies to each caller.${further && ` Further limits: ${further}.`}`
}

function signInCard () {
  return html` <section id="sign-in" class="card" aria-labelledby="sign-in-title">
    <h2 id="sign-in-title">Sign in</h2>
    <div class="ways">
      <form @submit=${submitSignIn}>
        <h3>With a local account</h3>
        <label
          >User name
          <input
            name="username"
            autocomplete="username"
            autocapitalize="none"
            spellcheck="false"
            required
        /></label>
        <label
          >Password <input name="password" type="password" autocomplete="current-password" required
        /></label>
        <p id="sign-in-error" class="error" role="alert">${state.signInError}</p>
        <button>Sign in</button>
        <p class="hint">
          For demonstration: <code>alice</code> with <code>wonderland</code>, or the administrator,
          <code>admin</code> with <code>looking-glass</code>.
        </p>
      </form>
      <div>
        <h3>Without an account</h3>
        <p>
          Run an operation below: the request has no authenticated caller, so the response is 401.
          Or send requests with a bearer token, which
          <code>node build/examples/service/print-token.js mira</code> prints.
        </p>
      </div>
    </div>
  </section>`
}

async function submitSignIn (event) {
  event.preventDefault()
  const response = await send('/api/sign-in', {
    method: 'POST',
    body: Object.fromEntries(new FormData(event.target))
  }).catch(() => null)
  if (response?.ok !== true) {
    return change({ signInError: response === null ? unreachable : await messageOf(response) })
  }
  signIn((await response.json()).token)
  document.getElementById('operations').focus()
  await refresh()
}

function draw () {
  const wasWaiting = document.activeElement?.id === 'anyway'
  render(page(), document.body)
  // The button that had the focus has disappeared.
  if (wasWaiting && document.getElementById('anyway') === null) {
    document.getElementById('run-button').focus()
  }
}

async function keepFresh () {
  await refresh()
  setTimeout(keepFresh, 1000)
}

onChange(draw)
draw()
setInterval(draw, 250)
keepFresh()
