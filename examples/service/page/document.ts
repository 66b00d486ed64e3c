/** Returns the element with an ID. Throws if the page has no such element. */
export function byId<Kind extends Element> (id: string, kind: abstract new () => Kind): Kind {
  const found = document.getElementById(id)
  if (!(found instanceof kind)) throw new Error(`the page has no such ${kind.name}: ${id}`)
  return found
}

/** Creates an element with attributes and content. Text is never parsed as HTML. */
export function element<Name extends keyof HTMLElementTagNameMap> (name: Name, attributes: Record<string, string | number> = {}, ...content: readonly (Node | string)[]): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name)
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, String(value))
  made.append(...content)
  return made
}

/** Sets the text of an element. Unchanged texts are not set, because screen readers would announce them again. */
export function setText (element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text
}
