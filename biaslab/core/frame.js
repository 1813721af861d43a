export default {
  render({ model, el }) {
    const frame = document.createElement("iframe");
    frame.title = model.get("title");
    frame.setAttribute("sandbox", "allow-scripts allow-downloads allow-popups");
    frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 0`;
    const hear = (event) => {
      if (event.source !== frame.contentWindow || !Array.isArray(event.data?.biaslab)) return;
      model.set("shown", event.data.biaslab);
      model.save_changes();
    };
    window.addEventListener("message", hear);
    frame.srcdoc = model.get("page");
    el.append(frame);
    return () => window.removeEventListener("message", hear);
  },
};
