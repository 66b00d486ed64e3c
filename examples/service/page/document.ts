/** The element of the page that has an identifier; the page and its programs are made for each other. */
export function byId<Kind extends Element> (id: string, kind: abstract new () => Kind): Kind {
  const found = document.getElementById(id)
  if (!(found instanceof kind)) throw new Error(`the page has no such ${kind.name}: ${id}`)
  return found
}

/** Makes an element with attributes and content. Text is text, whatever it looks like. */
export function element (name: string, attributes: Record<string, string | number> = {}, ...content: readonly (Node | string)[]): HTMLElement {
  const made = document.createElement(name)
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, String(value))
  made.append(...content)
  return made
}
