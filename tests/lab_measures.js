// What of a page cannot be read, reached or told apart: a sentence for each, none where all is well.
// Canvases say what is written on them, since this comes before the page's own scripts.
(() => {
  const written = new WeakMap();
  const prototype = CanvasRenderingContext2D.prototype;
  const { fillText, clearRect, drawImage } = prototype;
  prototype.clearRect = function (x, y, width, height) {
    const { a, d } = this.getTransform();
    if (width * a >= this.canvas.width - 1 && height * d >= this.canvas.height - 1) written.set(this.canvas, []);
    return clearRect.call(this, x, y, width, height);
  };
  prototype.fillText = function (text, x, y, most = Infinity) {
    const said = this.measureText(text);
    const squeeze = Math.min(1, most / said.width);
    const matrix = this.getTransform();
    const corners = [
      [x - said.actualBoundingBoxLeft * squeeze, y - said.actualBoundingBoxAscent],
      [x + said.actualBoundingBoxRight * squeeze, y + said.actualBoundingBoxDescent],
    ].map(([left, top]) => matrix.transformPoint({ x: left, y: top }));
    const [one, other] = corners;
    const box = {
      left: Math.min(one.x, other.x), right: Math.max(one.x, other.x),
      top: Math.min(one.y, other.y), bottom: Math.max(one.y, other.y),
    };
    if (!written.has(this.canvas)) written.set(this.canvas, []);
    if (String(text).trim()) written.get(this.canvas).push({ text: String(text), box, squeeze, colour: this.fillStyle });
    return fillText.call(this, text, x, y, ...(most === Infinity ? [] : [most]));
  };

  const rgba = (colour) => {
    const numbers = (/^rgba?\(([^)]*)\)/.exec(colour)?.[1] ?? "").split(/[ ,/]+/).map(Number);
    if (numbers.length >= 3) return [...numbers.slice(0, 3), numbers[3] ?? 1];
    const hex = /^#([0-9a-f]{6})$/i.exec(colour)?.[1];
    return hex ? [...[0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)), 1] : [0, 0, 0, 0];
  };
  const over = (top, ground) => [0, 1, 2].map((at) => top[at] * top[3] + ground[at] * (1 - top[3]));
  const brightness = (colour) => {
    const [red, green, blue] = colour.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [light, dark] = [brightness(one), brightness(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const grounds = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.unshift(rgba(getComputedStyle(one).backgroundColor));
    return layers.reduce((ground, layer) => over(layer, ground), [255, 255, 255]);
  };
  const name = (element) =>
    `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""} "${(element.getAttribute("aria-label") ?? element.textContent).trim().slice(0, 40)}"`;
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".unseen, .skip");

  // What is seen of a box: what scrolls or is cut hides the rest.
  const seen = (box, element) => {
    let { left, right, top, bottom } = box;
    for (let one = element; one; one = one.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(one);
      if (overflowX === "visible" && overflowY === "visible") continue;
      const frame = one.getBoundingClientRect();
      if (overflowX !== "visible") [left, right] = [Math.max(left, frame.left), Math.min(right, frame.right)];
      if (overflowY !== "visible") [top, bottom] = [Math.max(top, frame.top), Math.min(bottom, frame.bottom)];
    }
    return right - left > 1 && bottom - top > 1 ? { left, right, top, bottom } : undefined;
  };
  const meets = (one, other, room) =>
    Math.min(one.right, other.right) - Math.max(one.left, other.left) > room &&
    Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > room;

  function* texts() {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || !element || !isShown(element) || /^(OPTION|SCRIPT|STYLE|TITLE|TEXTAREA|title)$/.test(element.tagName)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const boxes = [...range.getClientRects()].filter(({ width, height }) => width > 1 && height > 1);
      yield { element, text: node.data.trim(), boxes };
    }
  }

  function* wrongTexts() {
    const places = [];
    for (const { element, text, boxes } of texts()) {
      const short = text.slice(0, 40);
      for (const box of boxes) {
        const part = seen(box, element);
        if (!part) continue;
        // Sideways nothing is cut but what scrolls.
        const holder = element.closest(".scroll, textarea");
        if (!holder && (part.left - box.left > 1.5 || box.right - part.right > 1.5)) yield `"${short}" is cut`;
        for (const other of places)
          if (meets(part, other.part, 3)) yield `"${short}" lies over "${other.short}"`;
        places.push({ part, short });
      }
      const control = element.closest("button, select");
      if (control?.disabled) continue;
      const style = getComputedStyle(element);
      const ground = element instanceof SVGElement ? rgba(getComputedStyle(document.documentElement).getPropertyValue("--soft").trim()) : grounds(element);
      const ink = rgba(element instanceof SVGElement ? style.fill : style.color);
      const found = contrast(over(ink, ground), ground);
      if (found < 4.5) yield `"${short}" has a contrast of ${found.toFixed(2)}`;
    }
    for (const select of document.querySelectorAll("select")) {
      if (!isShown(select)) continue;
      const context = document.createElement("canvas").getContext("2d");
      const style = getComputedStyle(select);
      context.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      const wide = context.measureText(select.selectedOptions[0]?.textContent ?? "").width;
      const arrow = 20;
      const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - arrow;
      if (wide > room + 1) yield `${select.id || "a select"} cuts "${select.selectedOptions[0].textContent}": ${wide.toFixed(0)} of ${room.toFixed(0)} px`;
    }
  }

  function* wrongCanvases() {
    const style = getComputedStyle(document.documentElement);
    const papers = ["--paper", "--soft"].map((paper) => rgba(style.getPropertyValue(paper).trim()));
    for (const canvas of document.querySelectorAll("canvas")) {
      if (!isShown(canvas)) continue;
      const all = written.get(canvas) ?? [];
      for (const [index, { text, box, squeeze, colour }] of all.entries()) {
        const isIn = box.left >= -0.5 && box.right <= canvas.width + 0.5 && box.top >= -0.5 && box.bottom <= canvas.height + 0.5;
        if (!isIn) yield `"${text}" is cut on a canvas: ${JSON.stringify(box)} of ${canvas.width} x ${canvas.height}`;
        if (squeeze < 0.85) yield `"${text}" is squeezed to ${squeeze.toFixed(2)}`;
        for (const paper of papers) {
          const found = contrast(over(rgba(colour), paper), paper);
          if (found < 4.5) yield `"${text}" on a canvas has a contrast of ${found.toFixed(2)}`;
        }
        for (const other of all.slice(0, index)) if (meets(box, other.box, 2)) yield `"${text}" lies over "${other.text}" on a canvas`;
      }
    }
  }

  function* wrongDrawings() {
    for (const group of document.querySelectorAll("#stage g")) {
      const frame = (group.querySelector(".host") ?? group.querySelector(".lane-hit"))?.getBoundingClientRect();
      const text = group.querySelector("text")?.getBoundingClientRect();
      if (frame && text && (text.left < frame.left - 0.5 || text.right > frame.right + 0.5)) yield `${name(group)} is wider than what it stands in`;
    }
  }

  const CONTROLS = "a[href], button, select, summary, textarea, input:not([type=file]), [role=button], [tabindex='0']";

  function* wrongControls() {
    const all = [...document.querySelectorAll(CONTROLS)].filter((one) => isShown(one) && !one.disabled && one.tabIndex >= 0);
    let before;
    for (const one of all) {
      const { width, height } = one.getBoundingClientRect();
      const isInline = one.matches("p a, li a");
      if (!isInline && !one.matches("[role=tabpanel]") && (width < 23.9 || height < 23.9)) yield `${name(one)} has ${width.toFixed(0)} x ${height.toFixed(0)} px`;
      one.focus();
      if (document.activeElement !== one) yield `${name(one)} takes no focus`;
      const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(one);
      const inner = one.querySelector(".host, .track");
      const isRing = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
      const ring = isRing ? outlineColor : inner ? getComputedStyle(inner).stroke : "";
      if (!one.matches(":focus-visible") || (!isRing && !(inner && parseFloat(getComputedStyle(inner).strokeWidth) >= 2))) yield `${name(one)} does not show its focus`;
      else {
        const ground = grounds(one.parentElement);
        if (contrast(over(rgba(ring), ground), ground) < 3) yield `the focus of ${name(one)} can hardly be seen`;
      }
      const box = one.getBoundingClientRect();
      if (box.bottom < 0 || box.top > innerHeight || box.right < 0 || box.left > innerWidth) yield `${name(one)} is not where one looks when it has the focus`;
      const area = one.closest("header, #player, #side, #local, footer")?.id ?? "";
      // Down the page, within each part of it.
      const top = box.top + scrollY + (one.closest("#side [role=tabpanel]")?.scrollTop ?? 0);
      if (before && area && area === before.area && !one.closest("svg") && top < before.top - 40) yield `${name(one)} comes after what is below it`;
      before = one.closest("svg") ? undefined : { area, top };
    }
    document.activeElement.blur();
    scrollTo(0, 0);
  }

  function* wrongTimes() {
    const { left, right } = document.getElementById("timeline").getBoundingClientRect();
    for (const plot of document.querySelectorAll("#plots .u-over")) {
      const box = plot.getBoundingClientRect();
      if (Math.abs(box.left - left) > 1 || Math.abs(box.right - right) > 1) yield `a plot is from ${box.left} to ${box.right}, the timeline from ${left} to ${right}`;
    }
    if (!document.querySelector("#plots .u-over")) yield "there are no plots";
  }

  window.measured = {
    page: () => {
      scrollTo(0, 0);
      // What scrolls is read as a whole.
      const side = document.getElementById("side");
      side.style.maxHeight = "none";
      const texts = [...wrongTexts()];
      side.style.maxHeight = "";
      const wide = document.documentElement.scrollWidth > innerWidth ? [`the page is ${document.documentElement.scrollWidth} px wide`] : [];
      return [...wide, ...texts, ...wrongCanvases(), ...wrongDrawings(), ...wrongControls(), ...wrongTimes()];
    },
    bottom: () => document.getElementById("plots").getBoundingClientRect().bottom + scrollY,
  };
})();
