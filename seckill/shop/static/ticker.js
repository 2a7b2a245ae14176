// A worker that answers after the time it was given; see clock.js.
self.onmessage = ({ data: { id, ms } }) => setTimeout(() => self.postMessage(id), ms);
