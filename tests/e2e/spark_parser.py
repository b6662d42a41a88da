"""Spark's own lexer and parser, asked in the JVM of a classic session: thousands of texts in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

# Compiled by Janino, which Spark brings along. A string is written as x and the hexadecimal digits of its UTF-16 code units.
_JAVA = r"""
package deltamerge.tests;
import org.antlr.v4.runtime.CharStreams;
import org.antlr.v4.runtime.Token;
import org.apache.spark.sql.catalyst.analysis.*;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.parser.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import scala.collection.immutable.Seq;
public class Reading implements java.util.function.BiFunction {
  static String hex(String text) {
    StringBuilder out = new StringBuilder("x");
    for (int i = 0; i < text.length(); i++) {
      String digits = Integer.toHexString(text.charAt(i));
      out.append("0000".substring(digits.length())).append(digits);
    }
    return out.toString();
  }
  static Object at(Seq found, int i) { return found.apply(new Integer(i)); }
  static String tokens(String text) {
    StringBuilder out = new StringBuilder();
    SqlBaseLexer lexer = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(text)));
    lexer.removeErrorListeners();
    java.util.List found = lexer.getAllTokens();
    for (int i = 0; i < found.size(); i++) {
      Token token = (Token) found.get(i);
      if (token.getChannel() == 0) {
        out.append(SqlBaseLexer.VOCABULARY.getSymbolicName(token.getType())).append(' ');
        out.append(token.getStartIndex()).append(' ').append(token.getStopIndex() + 1).append(',');
      }
    }
    return lexer.has_unclosed_bracketed_comment ? out.append("UNCLOSED 0 0,").toString() : out.toString();
  }
  static void tree(Expression node, StringBuilder out) {
    out.append('(').append(node.getClass().getSimpleName());
    Seq names = null;
    if (node instanceof UnresolvedAttribute) names = ((UnresolvedAttribute) node).nameParts();
    if (node instanceof UnresolvedFunction) names = ((UnresolvedFunction) node).nameParts();
    for (int i = 0; names != null && i < names.length(); i++) out.append(' ').append(hex((String) at(names, i)));
    if (node instanceof Literal) {
      Object value = ((Literal) node).value();
      String text = value instanceof byte[] ? "bytes" : "" + value;
      out.append(' ').append(hex(((Literal) node).dataType().sql())).append(' ').append(value == null ? "null" : hex(text));
    }
    if (node instanceof Cast) out.append(' ').append(hex(((Cast) node).dataType().sql()));
    if (node instanceof Like) out.append(' ').append(hex("" + ((Like) node).escapeChar()));
    for (int i = 0; i < node.children().length(); i++) { out.append(' '); tree((Expression) at(node.children(), i), out); }
    out.append(')');
  }
  static void action(MergeAction action, StringBuilder out) {
    out.append('|').append(action.getClass().getSimpleName()).append('|');
    if (action.condition().isDefined()) tree((Expression) action.condition().get(), out);
    Seq found = action instanceof UpdateAction ? ((UpdateAction) action).assignments() : null;
    if (action instanceof InsertAction) found = ((InsertAction) action).assignments();
    for (int i = 0; found != null && i < found.length(); i++) {
      out.append('|');
      tree(((Assignment) at(found, i)).key(), out);
      out.append('=');
      tree(((Assignment) at(found, i)).value(), out);
    }
  }
  static void actions(String side, Seq found, StringBuilder out) {
    for (int i = 0; i < found.length(); i++) { out.append('\t').append(side); action((MergeAction) at(found, i), out); }
  }
  static String statement(LogicalPlan plan) {
    if (plan instanceof UnresolvedWith) plan = ((UnresolvedWith) plan).child();
    if (!(plan instanceof MergeIntoTable)) return "other";
    MergeIntoTable merge = (MergeIntoTable) plan;
    StringBuilder out = new StringBuilder("merge\t" + merge.withSchemaEvolution() + "\t");
    tree(merge.mergeCondition(), out);
    actions("MATCHED", merge.matchedActions(), out);
    actions("NOT MATCHED", merge.notMatchedActions(), out);
    actions("NOT MATCHED BY SOURCE", merge.notMatchedBySourceActions(), out);
    return out.toString();
  }
  public Object apply(Object what, Object batch) {
    ParserInterface parser = new org.apache.spark.sql.execution.SparkSqlParser();
    String[] texts = ((String) batch).split("\u0001", -1);
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < texts.length; i++) {
      try {
        if ("tokens".equals(what)) out.append(tokens(texts[i]));
        if ("expressions".equals(what)) tree(parser.parseExpression(texts[i]), out);
        if ("statements".equals(what)) out.append(statement(parser.parsePlan(texts[i])));
      } catch (Throwable error) { out.append('!'); }
      out.append('\n');
    }
    return out.toString();
  }
}
"""

Tree = list[Any]


@dataclass(frozen=True)
class SparkParser:
    """What Spark reads in texts, none of which has the character U+0001."""

    java: Any

    @classmethod
    def of(cls, spark: SparkSession) -> SparkParser:
        jvm: Any = spark._jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(_JAVA)
        return cls(compiler.getClassLoader().loadClass("deltamerge.tests.Reading").newInstance())

    def tokens(self, texts: list[str]) -> list[list[tuple[str, int, int]]]:
        """The kind and the places of each token that is no blank and no comment."""
        lines = [[token.split(" ") for token in line.split(",")[:-1]] for line in self._lines("tokens", texts)]
        return [[(kind, int(start), int(behind)) for kind, start, behind in line] for line in lines]

    def expressions(self, texts: list[str]) -> list[str | None]:
        """The tree of each expression, None for what is none."""
        return [None if line.endswith("!") else line for line in self._lines("expressions", texts)]

    def statements(self, texts: list[str]) -> list[str | None]:
        """Each MERGE statement, `other` for another one, None for what is none."""
        return [None if line.endswith("!") else line for line in self._lines("statements", texts)]

    def _lines(self, what: str, texts: list[str]) -> list[str]:
        found = self.java.apply(what, "\u0001".join(texts)).split("\n")[:-1] if texts else []
        assert len(found) == len(texts)
        return list(found)


def nested(text: str) -> Tree:
    """A tree as lists, each with a kind, strings as `text_of` reads them, and its children."""
    levels: list[Tree] = [[]]
    for part in text.replace("(", " ( ").replace(")", " ) ").split():
        if part == "(":
            levels.append([])
        elif part == ")":
            done = levels.pop()
            levels[-1].append(done)
        else:
            levels[-1].append(part)
    (tree,) = levels[0]
    return list(tree)


def text_of(written: str) -> str:
    """A string of a tree."""
    return bytes.fromhex(written[1:]).decode("utf-16-be", "surrogatepass")
