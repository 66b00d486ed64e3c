import type { Readability } from './model.js'

const words = new Intl.Segmenter('en', { granularity: 'word' })
const sentences = new Intl.Segmenter('en', { granularity: 'sentence' })

const wordsPerMinute = 200

/** Calculates values that a language model could only guess: words, syllables, and reading ease by Flesch's formula for English. */
export function readabilityOf (text: string): Readability {
  const syllables = [...words.segment(text)].filter(({ isWordLike }) => isWordLike).map(({ segment }) => syllablesIn(segment))
  const count = syllables.length
  if (count === 0) return { fleschReadingEase: 0, words: 0, complexWords: 0, readingSeconds: 0 }
  const total = syllables.reduce((sum, number) => sum + number, 0)
  const wordsInSentence = count / [...sentences.segment(text)].length
  return {
    fleschReadingEase: Math.round(206.835 - 1.015 * wordsInSentence - 84.6 * total / count),
    words: count,
    complexWords: syllables.filter((number) => number >= 3).length,
    readingSeconds: Math.round(count / wordsPerMinute * 60)
  }
}

// Counts groups of vowels, except for a silent e at the end.
function syllablesIn (word: string): number {
  return Math.max(1, word.toLowerCase().replace(/(?<=[^aeiouy])e$/, '').match(/[aeiouy]+/g)?.length ?? 0)
}
