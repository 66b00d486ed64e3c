import type { Person } from './people.js'

/** The page on which users choose who they are. */
export function signInPage (uid: string, people: readonly Person[]): string {
  return page('Sign in', `
    <p>This provider runs inside the example, for development. Nobody it knows is real.</p>
    ${people.map((person) => personForm(uid, person)).join('')}
    <form method="post" action="/interaction/${escaped(uid)}/abort"><button class="quiet">Cancel</button></form>`)
}

// The field changes the display name of a user, but not the subject.
function personForm (uid: string, { sub, name, preferredUsername }: Person): string {
  return `
    <form method="post" action="/interaction/${escaped(uid)}" class="person">
      <h2>${escaped(name)}</h2>
      <input type="hidden" name="sub" value="${escaped(sub)}">
      <label>Preferred user name <input name="preferredUsername" value="${escaped(preferredUsername)}" maxlength="40" required></label>
      <button>Sign in as ${escaped(name)}</button>
    </form>`
}

/** The page on which users confirm that they sign out. The provider creates the form. */
export function signOutPage (form: string): string {
  return page('Sign out', `
    ${form}
    <p>You are about to sign out here as well.</p>
    <div class="actions">
      <button autofocus type="submit" form="op.logoutForm" name="logout" value="yes">Sign out</button>
      <button type="submit" form="op.logoutForm" class="quiet">Stay signed in here</button>
    </div>`)
}

/** A page with a message. */
export function messagePage (message: string): string {
  return page('Development provider', `<p role="alert">${escaped(message)}</p>`)
}

function page (title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>${title} · Development provider</title>
    <link rel="icon" href="/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/style.css">
  </head>
  <body class="provider">
    <main class="card">
      <h1>${title}</h1>${content}
    </main>
  </body>
</html>
`
}

function escaped (text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
