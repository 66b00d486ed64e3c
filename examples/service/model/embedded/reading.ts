import model from 'wink-eng-lite-web-model'
import winkNLP, { type Bow, type Detail, type ItemSentence, type ItemToken } from 'wink-nlp'

// The language model runs in this process. It is small, and yet reading it takes a moment: once, at start.
const nlp = winkNLP(model)
const { its } = nlp

/** A sentence with what the model found in it. */
export interface Sentence {
  readonly text: string
  /** From -1, negative, to 1, positive. */
  readonly sentiment: number
  readonly entities: readonly Entity[]
}

/** A name, number, date or the like. */
interface Entity {
  readonly text: string
  readonly type: string
}

/** What the model says of a text as a whole. */
export interface Reading {
  readonly sentences: readonly Sentence[]
  readonly entities: readonly Entity[]
  readonly sentiment: number
  readonly readability: { readonly fleschReadingEase: number, readonly words: number, readonly complexWords: number, readonly readingSeconds: number }
}

export function read (text: string): Reading {
  const document = nlp.readDoc(text)
  const sentences = readSentences(text)
  const statistics = Object(document.out(its.readabilityStats))
  return {
    sentences: [...sentences],
    entities: entitiesOf(document.entities().out(its.detail)),
    sentiment: Number(document.out(its.sentiment)),
    readability: {
      fleschReadingEase: Number(statistics.fres),
      words: Number(statistics.numOfWords),
      complexWords: Number(statistics.numOfComplexWords),
      readingSeconds: Number(statistics.readingTimeMins) * 60 + Number(statistics.readingTimeSecs)
    }
  }
}

/** Reads a text sentence by sentence, each when it is asked for. */
export function * readSentences (text: string): Generator<Sentence> {
  const sentences = nlp.readDoc(text).sentences()
  for (let index = 0; index < sentences.length(); index++) yield describe(sentences.itemAt(index))
}

/** The stems of the words that carry meaning, with how often each occurs. */
export function stemsOf (text: string): Bow {
  const stems: Bow = Object.create(null)
  nlp.readDoc(text).tokens().each((token: ItemToken) => {
    if (token.out(its.type) !== 'word' || token.out(its.stopWordFlag)) return
    // The package's declarations know of this helper for collections alone.
    const stem = String(Reflect.apply(token.out, token, [its.stem]))
    stems[stem] = (stems[stem] ?? 0) + 1
  })
  return stems
}

function describe (sentence: ItemSentence): Sentence {
  return {
    text: sentence.out(),
    sentiment: Number(sentence.out(its.sentiment)),
    entities: entitiesOf(sentence.entities().out(its.detail))
  }
}

function entitiesOf (details: readonly (Detail | string)[]): Entity[] {
  return details.flatMap((detail) => typeof detail === 'string' ? [] : [{ text: detail.value, type: detail.type }])
}
