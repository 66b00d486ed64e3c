import { element } from './document.js'

interface Entity { readonly text: string, readonly type: string }

/** A sentence with its sentiment and entities. */
export interface Sentence { readonly text: string, readonly sentiment: number, readonly entities: readonly Entity[] }

interface Analysis {
  readonly sentences: readonly Sentence[]
  readonly sentiment: number
  readonly readability: { readonly fleschReadingEase: number, readonly words: number, readonly complexWords: number, readonly readingSeconds: number }
}

interface Justification {
  readonly leaf: string
  readonly applies: boolean
  readonly score: number
  readonly explanation: string
  readonly evidence: readonly { readonly sentence: string, readonly shared: readonly string[] }[]
}

interface Scores { readonly parent: string, readonly children: readonly { readonly code: string, readonly name: string, readonly score: number }[] }

export function showAnalysis ({ sentences, sentiment, readability }: Analysis): Node[] {
  return [
    element('h3', {}, 'Analysis'),
    facts({
      Mood: mood(sentiment),
      Words: String(readability.words),
      'Reading ease': String(Math.round(readability.fleschReadingEase)),
      'Reading time': `${Math.round(readability.readingSeconds)} s`
    }),
    element('ol', {}, ...sentences.map(showSentence))
  ]
}

export function showSentence ({ text, sentiment, entities }: Sentence): HTMLElement {
  const found = entities.map((entity) => `${entity.text} (${entity.type.toLowerCase()})`)
  return element('li', {}, text, element('div', { class: 'note' }, [mood(sentiment), ...found].join(' · ')))
}

export function showJustification ({ leaf, applies, score, explanation, evidence }: Justification): Node[] {
  return [
    element('h3', {}, `${leaf} ${applies ? 'applies' : 'does not apply'}`),
    facts({ Score: score.toFixed(2) }),
    element('p', {}, explanation),
    element('ul', {}, ...evidence.map(({ sentence, shared }) => element('li', {}, sentence, element('div', { class: 'note' }, `Words in common: ${shared.join(', ')}`))))
  ]
}

export function showScores ({ parent, children }: Scores): Node[] {
  return [
    element('h3', {}, `Scores of the children of ${parent}`),
    element('ul', { class: 'scores' }, ...children.map(({ code, name, score }) => element('li', {},
      element('span', {}, score.toFixed(2)), `${name} (${code})`,
      element('meter', { min: 0, max: 1, value: score, 'aria-label': `${name}: ${score.toFixed(2)} of 1` }))))
  ]
}

function facts (entries: Record<string, string>): HTMLElement {
  return element('dl', {}, ...Object.entries(entries).map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, value))))
}

function mood (sentiment: number): string {
  if (sentiment > 0.1) return 'positive'
  return sentiment < -0.1 ? 'negative' : 'neutral'
}
