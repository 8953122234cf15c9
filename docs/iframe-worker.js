// Search when the site is opened from a disk: browsers start no worker from a file, so a hidden frame takes its place.
// (mkdocs-material's plugin "offline" would fetch such a script from another site.)
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => Promise.all(urls.map((source) => this.load(source)));
      this.ready = this.load(url);
    }
    load(url) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        Object.assign(script, { src: url, async: false, onload: done, onerror: failed });
        this.inside.document.body.appendChild(script);
      });
    }
    postMessage(data) {
      // What was sent before the script is there waits for it, in its order.
      this.ready = this.ready.then(() => {
        this.inside.dispatchEvent(new MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
