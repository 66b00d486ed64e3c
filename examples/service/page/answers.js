import { html } from '/lit-html/lit-html.js'

const percent = (score) => score.toFixed(2)

/** Draws the result of each operation. */
export const answers = {
  analyze: ({ sentences, sentiment }) =>
    html` <h3>Analysis</h3>
      <dl>
        <div>
          <dt>Mood</dt>
          <dd>${mood(sentiment)}</dd>
        </div>
        <div>
          <dt>Sentences</dt>
          <dd>${sentences.length}</dd>
        </div>
      </dl>
      <ol>
        ${sentences.map(sentenceOf)}
      </ol>`,
  'justify-leaf': ({ leaf, applies, score, explanation, evidence }) =>
    html` <h3>${leaf} ${applies ? 'applies' : 'does not apply'}</h3>
      <p>${explanation} Score: ${percent(score)}.</p>
      <ul>
        ${evidence.map(
          ({ sentence, shared }) =>
            html`<li>
              ${sentence}
              <div class="note">In common: ${shared.join(', ')}</div>
            </li>`
        )}
      </ul>`,
  'analyze-node': ({ parent, children }) =>
    html` <h3>Scores of the terms of ${parent}</h3>
      <ul class="scores">
        ${children.map(
          ({ code, name, score }) =>
            html` <li>
              <span>${percent(score)}</span>${name} (${code})<meter
                min="0"
                max="1"
                .value=${score}
                aria-label=${name}
              ></meter>
            </li>`
        )}
      </ul>`,
  'analyze-stream': (sentences) =>
    html`<h3>Sentence by sentence</h3>
      <ol>
        ${sentences.map(sentenceOf)}
      </ol>`
}

function sentenceOf ({ text, sentiment, entities }) {
  const found = entities.map((entity) => `${entity.text} (${entity.type.toLowerCase()})`)
  return html`<li>
    ${text}
    <div class="note">${[mood(sentiment), ...found].join(' · ')}</div>
  </li>`
}

function mood (sentiment) {
  if (sentiment > 0.1) return 'positive'
  return sentiment < -0.1 ? 'negative' : 'neutral'
}
