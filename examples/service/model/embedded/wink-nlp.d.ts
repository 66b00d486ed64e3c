// The package only declares this module under its CommonJS name.
declare module 'wink-nlp/utilities/similarity.js' {
  export { default } from 'wink-nlp/utilities/similarity'
}
